"""Writes the wheel of clients/python. Arguments: the version, the directory for the wheel.

The wheel needs nothing built: it is a zip file of the sources and three files about them (PEP 427). The
same sources give the same bytes.
"""

import base64
import hashlib
import pathlib
import sys
import zipfile

version, directory = sys.argv[1:]
source = pathlib.Path(__file__).parent.parent / "clients" / "python"
about = f"execd_client-{version}.dist-info"
files = {str(p.relative_to(source)): p.read_bytes() for p in sorted((source / "execd_client").iterdir()) if p.suffix in (".py", ".typed")}
files[f"{about}/METADATA"] = f"""Metadata-Version: 2.1
Name: execd-client
Version: {version}
Summary: Submits, watches and cancels jobs of execd standalone or of a Grid Engine cell
Home-page: https://github.com/execd-project/execd
License: Apache-2.0
Requires-Python: >=3.9
Description-Content-Type: text/markdown

{(source / "README.md").read_text("utf-8")}""".encode()
files[f"{about}/LICENSE"] = (source.parent.parent / "LICENSE").read_bytes()
files[f"{about}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: execd\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
record = f"{about}/RECORD"
digests = {n: base64.urlsafe_b64encode(hashlib.sha256(b).digest()).rstrip(b"=").decode() for n, b in files.items()}
files[record] = "".join(f"{n},sha256={digests[n]},{len(files[n])}\n" for n in digests).encode() + f"{record},,\n".encode()
with zipfile.ZipFile(pathlib.Path(directory) / f"execd_client-{version}-py3-none-any.whl", "w") as wheel:
    for name, text in files.items():
        info = zipfile.ZipInfo(name)  # of 1980
        info.external_attr, info.compress_type = 0o100644 << 16, zipfile.ZIP_DEFLATED
        wheel.writestr(info, text)
