"""The cases of the kits, by what they are about. What a case is made of is not here."""
