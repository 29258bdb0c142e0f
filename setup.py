"""Builds the core as C where that can be done, and installs the same files as they are where it cannot.

`disque.core`, the pure modules of `cluster` and the hot ones of `disque.server` become one group: they call each other
as C functions, which works only when all of them are compiled. So it is all or nothing. Whatever fails (no compiler, no
Python headers, mypyc, the import of what was built), nothing that is compiled is left and the wheel is a plain one, for
any machine.

The variable DISQUE_CORE of the environment decides: `compiled` makes a failure one of the build, `plain` does not try.
An editable install is always plain: its binaries would go stale with the first edit.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from setuptools import Distribution, Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

PURE_CLUSTER = ("capabilities", "gossip", "large", "member", "membership", "messages", "nodesfile", "table")
#: What each request and each reply goes through on its way between a socket and the core.
HOT_SERVER = ("connection", "facts", "pump", "requests", "walker")
#: Stands in for all the modules of the group until they are known: so that a wheel is built as one for this platform.
PLACEHOLDER = Extension("disque__mypyc", sources=[])


def sources() -> list[str]:
    """The files of the group. Packages stay plain: they hold nothing that takes time."""
    core = [path for path in Path("disque/core").rglob("*.py") if path.name != "__init__.py"]
    cluster = [Path("cluster", f"{name}.py") for name in PURE_CLUSTER]
    server = [Path("disque", "server", f"{name}.py") for name in HOT_SERVER]
    return sorted(map(str, [*core, *cluster, *server]))


class BuildManyFiles(build_ext):
    """Runs a compiler on each processor, also for the files of one module, which setuptools takes one by one."""

    def build_extensions(self) -> None:
        """Build all modules."""
        compile_all = self.compiler.compile

        def compile_at_once(files: list[str], **options: object) -> list[str]:
            made = pool.map(lambda file: compile_all([file], **options), files)
            return [name for names in made for name in names]

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            self.compiler.compile = compile_at_once
            super().build_extensions()


def build(extensions: list[Extension], lib: str, temp: str) -> None:
    """Compile and link modules written in C."""
    command = BuildManyFiles(Distribution({"ext_modules": extensions}))
    command.build_lib, command.build_temp, command.parallel = lib, temp, True
    command.ensure_finalized()
    command.run()


class BuildCore(build_ext):
    """Compiles the group, or leaves nothing of it."""

    def run(self) -> None:
        """Decide, and do it once."""
        if self.distribution.ext_modules != [PLACEHOLDER]:
            return  # setuptools asks again when it collects what was built
        wish = os.environ.get("DISQUE_CORE", "")
        if wish == "plain" or self.inplace or self.editable_mode:
            self.give_up("plain, as asked")
            return
        try:
            self.probe()
            self.compile()
        except (Exception, SystemExit) as error:  # whatever it is, plain Python runs; mypyc ends by SystemExit
            if wish == "compiled":
                raise
            self.give_up(f"plain, since it cannot be compiled here: {error!r}")

    def probe(self) -> None:
        """Compile the smallest module there is: half a minute of mypyc is in vain without a compiler."""
        with TemporaryDirectory() as folder:
            source = Path(folder, "probe.c")
            source.write_text("#include <Python.h>\n", encoding="utf-8")
            build([Extension("probe", [str(source)])], folder, folder)

    def compile(self) -> None:
        """Turn the group into C and that into modules, and import one of them."""
        # Imported here, where a failure is caught, and once: this file is run several times for one installation.
        from mypyc.build import mypycify  # noqa: PLC0415 - see above

        # A file for each module: gcc takes minutes to read all of it in one, and all processors compile.
        extensions = mypycify(sources(), group_name="disque", debug_level="0", opt_level="2", multi_file=True)
        for extension in extensions:
            # What one compiler warns of is nothing that a user could act on.
            extension.extra_compile_args = [flag for flag in extension.extra_compile_args if flag != "-Werror"]
            # Modules of the group call each other directly, not by a table that others could change: 7 % faster.
            extension.extra_compile_args.append("-fvisibility=hidden")
        self.clean()
        build(extensions, self.build_lib, self.build_temp)
        built = {"PYTHONPATH": os.pathsep.join([str(Path(self.build_lib).resolve()), *sys.path])}
        subprocess.run([sys.executable, "-c", "import disque.core.step"], env=os.environ | built, cwd="/", check=True)
        self.extensions = self.distribution.ext_modules = extensions

    def give_up(self, why: str) -> None:
        """Make the wheel a plain one."""
        print("core:", why, file=sys.stderr)
        self.extensions = self.distribution.ext_modules = []
        self.clean()

    def clean(self) -> None:
        """Remove what was compiled, now or by a build before this one: it would be taken for a part of the wheel."""
        for name in ("disque", "cluster"):
            for path in Path(self.build_lib, name).rglob("*.so"):
                path.unlink()
        for path in Path(self.build_lib).glob("disque__mypyc*.so"):
            path.unlink()


class Wheel(bdist_wheel):
    """A wheel whose tags tell what is in it, which is known once it is built."""

    def run(self) -> None:
        """Build first, so that nothing has been said of a platform before it is known whether there is one."""
        self.run_command("build")
        self.root_is_pure = not self.distribution.has_ext_modules()
        super().run()


setup(ext_modules=[PLACEHOLDER], cmdclass={"build_ext": BuildCore, "bdist_wheel": Wheel})
