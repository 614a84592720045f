# SPDX-License-Identifier: Apache-2.0

"""Puts a software bill of materials (SBOM) into a wheel, in CycloneDX 1.6, as PEP 770 says.

It names the package, the packages that it requires with their ranges, and the C++ library of the compiler, which is
linked into the native libraries. The same wheel always gets the same bytes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from datetime import datetime, timezone
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement

FILE = "poolgrad-lowering.cdx.json"


def add(wheel: Path, compiler: str | None) -> None:
    """Replace a wheel by the same wheel with an SBOM. `compiler` is the C++ compiler of its libraries, None without."""
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "wheel", "unpack", "--dest", folder, wheel)
        [unpacked] = Path(folder).iterdir()
        [info] = unpacked.glob("*.dist-info")
        metadata = HeaderParser().parsestr((info / "METADATA").read_text(encoding="utf-8"))
        sboms = info / "sboms"
        sboms.mkdir(exist_ok=True)
        (sboms / FILE).write_text(sbom(metadata, wheel.name, compiler) + "\n", encoding="utf-8")
        wheel.unlink()
        run(sys.executable, "-m", "wheel", "pack", "--dest-dir", wheel.parent, unpacked)


def sbom(metadata: Message, wheel: str, compiler: str | None) -> str:
    """Return the SBOM of a wheel as JSON text, from its metadata and file name."""
    name, version = metadata["Name"], metadata["Version"]
    package = Component(
        type=ComponentType.LIBRARY,
        name=name,
        version=version,
        bom_ref=f"pkg:pypi/{name}@{version}",
        purl=PackageURL("pypi", None, name, version),
        licenses=[LicenseExpression(metadata["License-Expression"])],
    )
    parts = [*required(metadata.get_all("Requires-Dist", [])), *([] if compiler is None else [cxx_library(compiler)])]
    bom = Bom(
        serial_number=uuid5(NAMESPACE_URL, wheel),
        metadata=BomMetaData(
            component=package, timestamp=datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), timezone.utc)
        ),
        components=parts,
    )
    bom.register_dependency(package, parts)
    return JsonV1Dot6(bom).output_as_string(indent=2)


def required(requirements: Iterable[str]) -> Iterable[Component]:
    """Yield the packages that are always required, with the range of their versions as a property."""
    for requirement in map(Requirement, requirements):
        if requirement.marker is None:
            yield Component(
                type=ComponentType.LIBRARY,
                name=requirement.name,
                bom_ref=f"pkg:pypi/{requirement.name}",
                purl=PackageURL("pypi", None, requirement.name),
                properties=[Property(name="poolgrad:versions", value=str(requirement.specifier))],
            )


def cxx_library(compiler: str) -> Component:
    """Return the C++ library of a compiler, linked into the native libraries."""
    asked = subprocess.run([compiler, "-dumpfullversion"], capture_output=True, text=True, check=True)
    version = asked.stdout.strip()
    return Component(
        type=ComponentType.LIBRARY,
        name="libstdc++",
        version=version,
        bom_ref=f"pkg:generic/libstdc%2B%2B@{version}",
        purl=PackageURL("generic", None, "libstdc++", version),
        licenses=[LicenseExpression("GPL-3.0-or-later WITH GCC-exception-3.1")],
    )


def run(*command: str | Path) -> None:
    """Run a command. Raises `CalledProcessError` if it fails."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
