# SPDX-License-Identifier: Apache-2.0
"""Shared by the programs that test tests with faults in metrics/. For each fault of a list, a
program with it is built, and a test must fail. First it checks that no test fails without a
fault. Unless TEST_SOAK=1, it builds every third one."""
import argparse
import os
import subprocess
import sys
import tempfile

LIBRARIES = ("-lcrypto", "-lhwloc", "-lm", "-lpthread")


class Tree:
    """A source tree and its build, from which programs with a fault are built."""

    def __init__(self, options):
        self.source, self.build, self.compiler = options.source, options.build, options.compiler
        self.link = options.link.split()

    def read(self, path):
        with open(f"{self.source}/{path}", encoding="utf-8") as file:
            return file.read()

    def compile(self, *arguments):
        """Compiles without warnings, which a fault may cause. Callers link what they do not give
        from libraries()."""
        subprocess.run([*self.compiler, "-std=gnu17", "-O1", "-w", "-ffp-contract=off", "-fPIC",
                        "-D_GNU_SOURCE", f"-I{self.source}", f"-I{self.source}/include",
                        f"-I{self.build}/generated", *arguments], check=True)

    def libraries(self):
        return (*self.link, f"{self.build}/lib/libkolo_core.a", *LIBRARIES)


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def options_of(seeds):
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("build")
    parser.add_argument("compiler", nargs=argparse.REMAINDER, help="a command of one or more words")
    parser.add_argument("--link", default="", help="linker options; -fuse-ld=lld links faster")
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--only", default="", help="faults whose file or text has this")
    return parser.parse_args()


def run(faults, seeds, prepare):
    """faults: a list of (file of metrics/, text that it has once, text that replaces it).
    prepare(tree, folder, seeds) returns build(name, text), which builds the programs with this text
    as file name, and catches(name), which returns what caught the fault, or None."""
    options = options_of(seeds)
    tree = Tree(options)
    chosen = [fault for fault in faults if any(options.only in part for part in fault[:2])]
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        build, catches = prepare(tree, folder, options.seeds)
        for name, _, _ in chosen[:1]:
            build(name, tree.read(f"metrics/{name}"))
            caught = catches(name)
            if caught:
                sys.exit(f"without a fault it is caught too, by {caught}")
        for name, old, _ in chosen:
            if tree.read(f"metrics/{name}").count(old) != 1:
                sys.exit(f"{name} does not have once: {old}")
        if os.environ.get("TEST_SOAK") != "1" and not options.only:
            chosen = chosen[::3]
        for name, old, new in chosen:
            text = tree.read(f"metrics/{name}")
            build(name, text.replace(old, new))
            caught = catches(name)
            missed += caught is None
            print(f"{'MISSED' if caught is None else 'caught'} by {caught}: {name}: {old.strip()} "
                  f"-> {new.strip() or 'nothing'}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} faults caught")
    sys.exit(missed > 0)
