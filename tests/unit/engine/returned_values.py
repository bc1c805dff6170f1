"""Values as tools, databases, HTTP APIs and clouds return them, by the status that they claim.

A `Result` stands for a `ToolResult` that is not ok, as a runner sends it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

ARTICLE: Final = (
    "File systems keep three permissions for each file: read, write and execute. A process that opens a file needs the "
    "permission of its user, of its group, or of all others. If none of them suffices, the kernel returns EACCES and "
    "the C library prints 'Permission denied'. Web servers report the same as status 403, and databases as a missing "
    "privilege: PostgreSQL prints 'permission denied for table', MySQL prints 'Access denied for user'. An "
    "administrator grants the privilege, or adds the user to a group; users who are not authorized to do so ask one. "
    "A tool should report such a refusal in few words, and name the privilege."
)
"""A documentation text of more than 500 characters."""


@dataclass(frozen=True, slots=True)
class Result:
    """A `ToolResult` that is not ok."""

    stderr: str = ""
    stdout: str = ""
    meta: dict[str, Any] = field(default_factory=dict)

    def parts(self) -> dict[str, Any]:
        """Return the parts that a runner sends."""
        return {"ok": False, "stdout": self.stdout, "stderr": self.stderr, "meta": self.meta}


REFUSALS: Final = (
    "Access denied",
    "  ACCESS DENIED!\n",
    "Access is denied.",
    "User alice does not have the ADMIN privilege",
    "Error: User 'bob' does not have the 'catalog.write' privilege on 'reports'.",
    "The caller does not have the files.write and the files.read privileges for this.",
    "ERROR:  permission denied for table payroll",
    "ERROR 1045 (28000): Access denied for user 'app'@'10.0.0.7' (using password: YES)",
    "ERROR 1142 (42000): SELECT command denied to user 'app'@'%' for table 'payroll'",
    "ORA-01031: insufficient privileges",
    "SQL access control error: Insufficient privileges to operate on schema 'FINANCE'",
    "The SELECT permission was denied on the object 'Payroll', database 'HR', schema 'dbo'.",
    "not authorized on admin to execute command { listDatabases: 1 }",
    "NOPERM this user has no permissions to run the 'flushall' command",
    "An error occurred (AccessDenied) when calling the PutObject operation: Access Denied",
    "An error occurred (UnauthorizedOperation) when calling the RunInstances operation",
    "User: arn:aws:iam::123456789012:user/ci is not authorized to perform: s3:GetObject on resource: logs",
    "403 POST https://compute.googleapis.com/v1/x: Permission 'compute.instances.create' denied on resource",
    "PERMISSION_DENIED: The caller does not have permission",
    "(AuthorizationFailed) The client 'ci' does not have authorization to perform action 'Microsoft.Web/sites/read'",
    'Error from server (Forbidden): pods is forbidden: User "dev" cannot list resource "pods"',
    "403 Client Error: Forbidden for url: https://api.example.com/v1/users",
    "401 Client Error: Unauthorized for url: https://api.example.com/v1/users",
    "HTTP Error 401: Unauthorized",
    "You don't have permission to access /admin on this server.",
    "User app lacks the REPLICATION privilege",
    "bash: line 1: /etc/shadow: Permission denied",
    "PermissionError: [Errno 13] Permission denied: '/root/.ssh/id_rsa'",
    "chown: changing ownership of '/etc/passwd': Operation not permitted",
    "git@github.com: Permission denied (publickey).",
    "remote: Permission to octo/site.git denied to bob.",
    "pull access denied for acme/app, repository does not exist or may require 'docker login'",
    "denied: requested access to the resource is denied",
    "Access to the path 'C:\\Windows\\System32\\config' is denied.",
    "Sorry, you are not authorised to see this page.",
    "unauthorised",
    "Forbidden",
)
"""Texts that refuse something, each a value of its own and a reason in other values."""

MENTIONS: Final = (
    "could not parse the log line 'permission denied'",
    'No results for "access denied".',
    "no article about access denied was found",
    "Found 3 permission denied errors in auth.log",
    "0 unauthorized login attempts in the last hour",
    "200 OK: 140, 403 Forbidden: 12, 404 Not Found: 3",
    "Raises PermissionError if the user is not authorized.",
    "The report covers an unauthorized biography of Bach.",
    "12 requests were denied by the rate limiter",
    "HTTP 404: Not Found for url: https://api.example.com/v1/users/7",
    "The loan was denied.",
    "The town has no museum, and for the castle a visitor needs permission.",
    "You do not have to ask. Every user has the SELECT privilege.",
    "Access to the site was easy, and the patient denied any pain.",
    "Tell me whether the permission denied to Bob was ever granted.",
    "Parking is forbidden on Sundays.",
    "disk full",
    "",
)
"""Short texts that refuse nothing, whatever words are in them."""

DENIED: Final[tuple[Any, ...]] = (
    {"success": False, "error": "E17", "message": "Access denied"},
    {"success": False, "message": "You are not authorized to do this"},
    {"success": False, "error": "Access denied for bob. " + "x" * 1000},
    {"success": False, "error": ["Access denied"]},
    {"success": False, "error_code": "permission_denied", "error": "ask an administrator"},
    {"success": False, "error": {"code": 403, "message": "ask an administrator"}},
    {"success": False, "code": "AccessDeniedException", "error": "ask an administrator"},
    {"success": None, "error": "permission denied for table payroll", "rows": []},
    {"success": None, "error_code": "INSUFFICIENT_PRIVILEGES"},
    {"error": True, "message": "Access denied"},
    {"message": "Forbidden", "documentation_url": "https://docs.example.com/rest", "status": "403"},
    {"error": {"code": 403, "message": "The caller may not do this", "status": "PERMISSION_DENIED"}},
    {"success": False, "error": {"type": "AccessDenied", "id": 7}},
    {"code": 401, "message": "Token expired"},
    {"code": "42501", "message": "must be owner of table payroll"},
    '{"success": false, "error": "Access denied"}',
    ' {"message": "not authorized", "rows": []}\n',
    '"Access denied"',
    "[Errno 1] Operation not permitted: '/dev/mem'",
    "Access denied" + "." * 487,
    Result("find: '/root': Permission denied"),
    Result(stdout="Access denied"),
    Result('{"error": "ask an administrator", "code": 403}'),
    Result("ask an administrator", meta={"error_code": "forbidden"}),
    Result(meta={"message": "unauthorized"}),
)
"""Refusals in each form but a plain text."""

FAILED: Final[tuple[Any, ...]] = (
    {"success": False},
    {"success": False, "error": "no such city"},
    {"success": False, "error": "Access granted, but the disk is full"},
    {"success": False, "code": 404, "message": "Not Found"},
    {"success": False, "code": True, "error": "E1"},
    {"success": False, "code": ["403"], "error": "E1"},
    {"success": False, "error": "x" * 600 + " permission denied"},
    {"success": False, "error": "no such page", "text": "Access denied"},
    '{"success": false, "error": "no such city"}',
    Result("no such path"),
    Result(stdout="out", meta={"success": True}),
    Result(),
)

OK: Final[tuple[Any, ...]] = (
    *(True, False, 0, 403, None, [], {}),
    {"slope": 1, "error": 0.05},
    {"error": "no such city"},
    {"error": {"message": "gone", "code": 404}},
    {"error": ["mean", "median"], "code": 403},
    {"success": True, "error": "access denied", "code": 403, "error_code": "forbidden"},
    {"success": "false", "error": "Access denied"},
    {"success": 0, "failed": 3, "error": "Access denied"},
    {"code": 200, "message": "Permission granted"},
    {"code": 403, "city": "Calgary"},
    {"access denied": 12, "permission denied": 3, "unauthorized": 0},
    {"denied": 12, "allowed": 4071},
    {"error": {"access denied": 12, "not found": 3}},
    {"text": "Access denied"},
    {"message": ARTICLE},
    {"title": "Permissions", "error": ARTICLE},
    [{"id": 1, "denied": True, "error": "Access denied"}, {"id": 2, "denied": False, "error": None}],
    ["Access denied"],
    ARTICLE,
    "Access denied" + "." * 488,
    f'{{"page": "{ARTICLE}"}}',
    '{"success": true, "message": "renamed the page Access denied"}',
    '[{"error": "Access denied"}]',
    '{"error": ' + "[" * 100_000,
)
