"""Say in one sentence what this machine lacks, before anything is installed.

``make`` runs this file with whatever Python it finds, so it imports nothing but the standard
library and avoids syntax that is newer than Python 3.6.
"""

import ctypes.util
import importlib.util
import os
import shlex
import shutil
import sys
import sysconfig

OLDEST = (3, 11)


def problems():
    """Yield a sentence for everything that is missing."""
    if sys.version_info < OLDEST:
        needed, found = (".".join(map(str, v[:2])) for v in (OLDEST, sys.version_info))
        yield f"Python {needed} or later is needed, and {sys.executable} is {found}."
    for module in ("venv", "ensurepip"):
        if importlib.util.find_spec(module) is None:
            yield (
                f"This Python cannot make virtual environments ({module} is missing); "
                "on Debian and Ubuntu, install python3-venv."
            )
            break
    compiler = os.environ.get("CXX", "c++")
    if not any(shutil.which(word) for word in shlex.split(compiler)[:1]):
        yield (
            f"There is no C++ compiler ({compiler}), which Verilator needs; "
            "install one, such as g++, or name it in CXX."
        )
    if shutil.which("make") is None:
        yield "There is no make, which Verilator needs; install GNU make."
    if not has_shared_library():
        yield (
            "This Python has no shared library, which cocotb loads; on Debian and Ubuntu, install "
            "libpython3-dev, and otherwise a Python that was built with --enable-shared."
        )


def has_shared_library():
    """Return whether libpython can be loaded into another program."""
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    if sysconfig.get_config_var("PYTHONFRAMEWORK") or ctypes.util.find_library(name):
        return True
    get = sysconfig.get_config_var
    folders = [get("LIBDIR"), get("LIBPL"), os.path.join(sys.base_prefix, "lib")]
    if get("LIBDIR") and get("MULTIARCH"):
        folders.append(os.path.join(get("LIBDIR"), get("MULTIARCH")))
    files = [get("INSTSONAME"), get("LDLIBRARY"), f"lib{name}.dylib"]
    return any(
        not file.endswith(".a") and os.path.exists(os.path.join(folder, file))
        for folder in filter(None, folders)
        for file in filter(None, files)
    )


def main():
    """Print what is missing; the exit status says whether anything is."""
    missing = list(problems())
    for sentence in missing:
        print(sentence, file=sys.stderr)
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
