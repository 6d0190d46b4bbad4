# SPDX-License-Identifier: Apache-2.0
"""What the programs share that break metrics/ on purpose: the list of faults is walked through, each is
built, and somebody must notice. That nobody notices code without a fault is looked at first."""
import argparse
import subprocess
import sys
import tempfile

LIBRARIES = ("-lcrypto", "-lhwloc", "-lm", "-lpthread")


class Tree:
    """The sources and a build of them, out of which programs with a fault are made."""

    def __init__(self, options):
        self.source, self.build, self.compiler = options.source, options.build, options.compiler
        self.link = options.link.split()

    def read(self, path):
        with open(f"{self.source}/{path}", encoding="utf-8") as file:
            return file.read()

    def compile(self, *arguments):
        """Without the warnings that a fault may well cause; with kolo's archive for what is not given."""
        subprocess.run([self.compiler, "-std=gnu17", "-O1", "-w", "-ffp-contract=off", "-fPIC",
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
    parser.add_argument("compiler")
    parser.add_argument("--link", default="", help="options of the linking: -fuse-ld=lld takes less time for as good a program")
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--only", default="", help="faults whose file or text has this")
    return parser.parse_args()


def run(faults, seeds, prepare):
    """faults: file of metrics/, what is there (once), what the fault makes of it. prepare(tree, folder,
    seeds) returns build(name, text), which makes the programs with a file that has this text, and
    catches(name), which says who noticed, or None."""
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
        for name, old, new in chosen:
            text = tree.read(f"metrics/{name}")
            if text.count(old) != 1:
                sys.exit(f"{name} has {text.count(old)} times: {old}")
            build(name, text.replace(old, new))
            caught = catches(name)
            missed += caught is None
            print(f"{'MISSED' if caught is None else 'caught'} by {caught}: {name}: {old.strip()} "
                  f"-> {new.strip() or 'nothing'}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} faults caught")
    sys.exit(missed > 0)
