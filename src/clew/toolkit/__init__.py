"""Ready tools with honest capabilities, for any agent: files of the workspace, an HTTP request, a shell command."""

from clew.toolkit.edits import delete_file, edit_file, move_file
from clew.toolkit.files import list_files, read_file, write_file
from clew.toolkit.http import http_request
from clew.toolkit.search import search_files
from clew.toolkit.shell import shell

__all__ = [
    "delete_file",
    "edit_file",
    "http_request",
    "list_files",
    "move_file",
    "read_file",
    "search_files",
    "shell",
    "write_file",
]
