"""The only room that touches the operating system. No meaning here: bytes, descriptors, processes."""
