"""The user's own agent, put to death: real processes, really killed, on a scratch home. Entered by the command."""
