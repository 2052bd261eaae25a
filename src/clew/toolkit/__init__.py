"""Ready tools with honest capabilities, for any agent: files of the workspace, and one HTTP request."""

from clew.toolkit.files import list_files, read_file, write_file
from clew.toolkit.http import http_request

__all__ = ["http_request", "list_files", "read_file", "write_file"]
