"""Outside judges: what other people's test suites say of clew. Nothing of the product; needs its own environment."""
