"""The living run: journal, gate, legs, homes. It is given stores; only `home` names a concrete one."""
