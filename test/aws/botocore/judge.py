"""Judges requests and replies of AWS by the service models of Debian's botocore.

Reads one JSON object a line (service, operation, type, status, request, reply) and
answers each with a line: a list of what is wrong, which is empty when nothing is.
Its argument is overlay.json: shapes that are newer than the models, and errors that
any operation may have.
"""
import json
import re
import sys
import urllib.parse
import xml.etree.ElementTree as tree

import botocore.loaders
import botocore.model
import botocore.parsers
import botocore.validate

OVERLAY = json.loads(sys.argv[1])
SERVICES = {"fsx": "fsx", "sts": "sts", "ec2": "ec2", "monitoring": "cloudwatch", "ce": "ce"}
models = {}


def merge(into, more):
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        elif isinstance(value, list) and isinstance(into.get(key), list):
            into[key] = into[key] + value
        else:
            into[key] = value


def model(service):
    name = SERVICES[service]
    if name not in models:
        description = botocore.loaders.Loader().load_service_model(name, "service-2")
        merge(description["shapes"], OVERLAY["shapes"].get(name, {}))
        models[name] = botocore.model.ServiceModel(description, name)
    return models[name]


def pattern(text):
    # Unicode classes, which Python's re has not: letters and digits are \w, spaces \s.
    return text.replace(r"\p{L}\p{Z}\p{N}", r"\w\s")


def scalar(shape, value, path, wrong):
    if shape.type_name == "string":
        if shape.enum and value not in shape.enum:
            wrong.append(f"{path}: {value!r} is none of {shape.enum}")
        size, unit = len(value), "characters"
        if "pattern" in shape.metadata and not re.search(pattern(shape.metadata["pattern"]), value):
            wrong.append(f"{path}: {value!r} does not match {shape.metadata['pattern']}")
    elif shape.type_name in ("integer", "long", "float", "double"):
        size, unit = value, "as a number"
    else:
        return
    bounds(shape, size, unit, path, wrong)


def bounds(shape, size, unit, path, wrong):
    if size < shape.metadata.get("min", size) or size > shape.metadata.get("max", size):
        wrong.append(f"{path}: {size} {unit}, of {shape.metadata.get('min')} to {shape.metadata.get('max')}")


def walk(shape, value, path, wrong):
    """Enums, patterns, lengths and required members, which ParamValidator looks at only in part."""
    if shape.type_name == "structure":
        for name in shape.required_members:
            if name not in value:
                wrong.append(f"{path}: {name} is missing")
        for name, inner in value.items():
            if name not in shape.members:
                wrong.append(f"{path}: {name} is not in the model")
            else:
                walk(shape.members[name], inner, f"{path}.{name}", wrong)
    elif shape.type_name == "list":
        bounds(shape, len(value), "members", path, wrong)
        for i, inner in enumerate(value):
            walk(shape.member, inner, f"{path}[{i}]", wrong)
    elif shape.type_name == "map":
        for key, inner in value.items():
            scalar(shape.key, key, f"{path} (key)", wrong)
            walk(shape.value, inner, f"{path}.{key}", wrong)
    else:
        scalar(shape, value, path, wrong)


def judge(shape, value, path, wrong):
    if shape is None:
        if value:
            wrong.append(f"{path}: there should be nothing, and there is {value!r}")
        return
    report = botocore.validate.ParamValidator().validate(value, shape)
    if report.has_errors():
        wrong.append(f"{path}: {report.generate_report()}")
    else:
        walk(shape, value, path, wrong)


class Form:
    """The parameters of a query, put back into the shape of the request."""

    def __init__(self, text, ec2):
        self.values = dict(urllib.parse.parse_qsl(text, keep_blank_values=True))
        self.ec2 = ec2
        self.left = set(self.values) - {"Action", "Version"}

    def name(self, member, shape):
        if self.ec2:
            if "queryName" in shape.serialization:
                return shape.serialization["queryName"]
            name = shape.serialization.get("name", member)
            return name[0].upper() + name[1:]
        return shape.serialization.get("name", member)

    def under(self, prefix):
        return any(k == prefix or k.startswith(prefix + ".") for k in self.values)

    def read(self, shape, prefix):
        if shape.type_name == "structure":
            found = {}
            for member, inner in shape.members.items():
                name = self.name(member, inner)
                path = f"{prefix}.{name}" if prefix else name
                if self.under(path):
                    found[member] = self.read(inner, path)
            return found
        if shape.type_name == "list":
            return self.list(shape, prefix)
        self.left.discard(prefix)
        return convert(shape.type_name, self.values[prefix])

    def list(self, shape, prefix):
        if self.values.get(prefix) == "":
            self.left.discard(prefix)
            return []
        if not self.ec2 and not shape.serialization.get("flattened"):
            prefix += "." + shape.member.serialization.get("name", "member")
        found = []
        while self.under(f"{prefix}.{len(found) + 1}"):
            found.append(self.read(shape.member, f"{prefix}.{len(found) + 1}"))
        return found


def convert(kind, text):
    if kind in ("integer", "long"):
        return int(text)
    if kind in ("float", "double"):
        return float(text)
    if kind == "boolean":
        return {"true": True, "false": False}[text]
    return text


def elements(shape, node, path, wrong, ec2):
    """Elements of a reply that the model does not have: the parser passes them over."""
    if shape.type_name == "structure":
        known = {inner.serialization.get("name", member): inner for member, inner in shape.members.items()}
        for child in node:
            name = child.tag.split("}")[-1]
            if name in known:
                elements(known[name], child, f"{path}.{name}", wrong, ec2)
            elif name not in ("ResponseMetadata", "requestId"):
                wrong.append(f"{path}: the element {name} is not in the model")
    elif shape.type_name == "list" and not shape.serialization.get("flattened"):
        member = shape.member.serialization.get("name", "member")
        for child in node:
            if child.tag.split("}")[-1] != member:
                wrong.append(f"{path}: the element {child.tag} is not a {member}")
            else:
                elements(shape.member, child, path + "[]", wrong, ec2)


def request(service, operation, text, wrong):
    if service.protocol == "json":
        value = json.loads(text)
    else:
        form = Form(text, service.protocol == "ec2")
        value = form.read(operation.input_shape, "") if operation.input_shape else {}
        for name in sorted(form.left):
            wrong.append(f"request: the parameter {name} is not in the model")
    judge(operation.input_shape, value, "request", wrong)


def parsed(service, shape, exchange):
    headers = {"content-type": exchange["type"], "x-amzn-requestid": exchange["id"]}
    parser = botocore.parsers.create_parser(service.protocol)
    reply = {"body": exchange["reply"].encode(), "headers": headers, "status_code": exchange["status"]}
    return parser.parse(reply, shape)


def reply(service, operation, exchange, wrong):
    shape = operation.output_shape
    value = parsed(service, shape, exchange)
    if service.protocol == "json":
        value = json.loads(exchange["reply"])  # with what the parser passes over
    else:
        if value.pop("ResponseMetadata", {}).get("RequestId") != exchange["id"]:
            wrong.append("reply: no RequestId")
        root = tree.fromstring(exchange["reply"])
        expected = service.metadata["xmlNamespace"].rstrip("/")
        if root.tag.lstrip("{").rsplit("}", 1)[0].rstrip("/") != expected:
            wrong.append(f"reply: the namespace of {root.tag} is not {expected}")
        if shape is not None:
            inner = [c for c in root if c.tag.endswith("Result")] if service.protocol == "query" else [root]
            elements(shape, inner[0], "reply", wrong, service.protocol == "ec2")
    judge(shape, value, "reply", wrong)


def refusal(service, operation, exchange, wrong):
    value = parsed(service, None, exchange)["Error"]
    code = value.get("Code")
    if not value.get("Message"):
        wrong.append("error: no message")
    for shape in operation.error_shapes if operation else []:
        if code in (shape.name, shape.error_code):
            if service.protocol == "json":
                body = json.loads(exchange["reply"])
                body.pop("__type")
                judge(shape, body, "error " + code, wrong)
            return
    if code not in OVERLAY["errors"][service.protocol] and code not in OVERLAY["errors"].get(service.service_name, []):
        wrong.append(f"error: {code} is none of the operation, and none of the common ones")


def verdict(exchange):
    wrong = []
    service = model(exchange["service"])
    if exchange["operation"] not in service.operation_names:
        operation = None
    else:
        operation = service.operation_model(exchange["operation"])
    if exchange["status"] >= 300:
        refusal(service, operation, exchange, wrong)
    else:
        request(service, operation, exchange["request"], wrong)
        reply(service, operation, exchange, wrong)
    return wrong


for line in sys.stdin:
    try:
        answer = verdict(json.loads(line))
    except Exception as e:  # what it can not even read is wrong as well
        answer = [f"{type(e).__name__}: {e}"]
    print(json.dumps(answer), flush=True)
