"""Functions for JSV scripts in Python 3 (jsv(1), jsv_script_interface(3)).

A script defines jsv_on_start() and jsv_on_verify(), imports all names of this module and calls
jsv_main(); jsv.py is a script to begin with. Functions that ask return True or False. What is
no UTF-8 in a job survives as os.fsdecode() has it.
"""

import sys

__all__ = [
    "jsv_main", "jsv_send_env",
    "jsv_clear_params", "jsv_is_param", "jsv_get_param", "jsv_set_param", "jsv_del_param",
    "jsv_sub_is_param", "jsv_sub_get_param", "jsv_sub_add_param", "jsv_sub_del_param",
    "jsv_clear_envs", "jsv_is_env", "jsv_get_env", "jsv_add_env", "jsv_mod_env", "jsv_del_env",
    "jsv_accept", "jsv_correct", "jsv_reject", "jsv_reject_wait",
    "jsv_show_params", "jsv_show_envs", "jsv_log_info", "jsv_log_warning", "jsv_log_error",
]

_params = {}
_envs = {}


def _say(*words):
    """Write a line."""
    line = " ".join(str(word) for word in words if word not in (None, "")).replace("\n", " ")
    sys.stdout.flush()
    sys.stdout.buffer.write(line.encode("utf-8", "surrogateescape") + b"\n")
    sys.stdout.buffer.flush()


def _elements(param):
    """Return a list as a dictionary; the value of a name without one is None."""
    elements = {}
    for element in _params.get(param, "").split(","):
        name, equals, value = element.partition("=")
        if element:
            elements[name] = value if equals else None
    return elements


def _set_elements(param, elements):
    jsv_set_param(param, ",".join(name if value is None else name + "=" + value for name, value in elements.items()))


def jsv_clear_params():
    _params.clear()


def jsv_clear_envs():
    _envs.clear()


def jsv_is_param(param):
    return param in _params


def jsv_get_param(param):
    return _params.get(param, "")


def jsv_set_param(param, value):
    if value in (None, ""):
        jsv_del_param(param)
        return
    _params[param] = str(value)
    _say("PARAM", param, value)


def jsv_del_param(param):
    _params.pop(param, None)
    _say("PARAM", param)


def jsv_sub_is_param(param, name):
    return name in _elements(param)


def jsv_sub_get_param(param, name):
    return _elements(param).get(name) or ""


def jsv_sub_add_param(param, name, value=None):
    elements = _elements(param)
    elements.pop(name, None)
    elements[name] = None if value in (None, "") else str(value)
    _set_elements(param, elements)


def jsv_sub_del_param(param, name):
    elements = _elements(param)
    if name in elements:
        del elements[name]
        _set_elements(param, elements)


def jsv_is_env(name):
    return name in _envs


def jsv_get_env(name):
    return _envs.get(name, "")


def jsv_add_env(name, value=""):
    word = "MOD" if name in _envs else "ADD"
    _envs[name] = "" if value is None else str(value)
    _say("ENV", word, name, value)


def jsv_mod_env(name, value=""):
    jsv_add_env(name, value)


def jsv_del_env(name):
    if name in _envs:
        del _envs[name]
        _say("ENV DEL", name)


def jsv_send_env():
    _say("SEND ENV")


def jsv_accept(*message):
    _say("RESULT STATE ACCEPT", *message)


def jsv_correct(*message):
    _say("RESULT STATE CORRECT", *message)


def jsv_reject(*message):
    _say("RESULT STATE REJECT", *message)


def jsv_reject_wait(*message):
    _say("RESULT STATE REJECT_WAIT", *message)


def jsv_log_info(*message):
    _say("LOG INFO", *message)


def jsv_log_warning(*message):
    _say("LOG WARNING", *message)


def jsv_log_error(*message):
    _say("LOG ERROR", *message)


def jsv_show_params():
    for name, value in sorted(_params.items()):
        jsv_log_info("got param " + name + "=" + value)


def jsv_show_envs():
    for name, value in sorted(_envs.items()):
        jsv_log_info("got env " + name + "=" + value)


def jsv_main():
    """Talk with qsub or the daemon until they end."""
    script = sys.modules["__main__"]
    # Bytes, so that nothing but a line feed ends a line.
    for raw in sys.stdin.buffer:
        line = raw.decode("utf-8", "surrogateescape")
        if line.endswith("\n"):
            line = line[:-1]
        command, _, rest = line.partition(" ")
        if line == "START":
            jsv_clear_params()
            jsv_clear_envs()
            script.jsv_on_start()
            _say("STARTED")
        elif command == "PARAM" and rest:
            name, _, value = rest.partition(" ")
            _params[name] = value
        elif line.startswith(("ENV ADD ", "ENV MOD ")):
            name, _, value = line[len("ENV ADD "):].partition(" ")
            _envs[name] = value
        elif line.startswith("ENV DEL "):
            _envs.pop(line[len("ENV DEL "):], None)
        elif line == "BEGIN":
            script.jsv_on_verify()
        elif line == "QUIT":
            return
        elif line not in ("", "SHOW"):
            _say('ERROR unknown command "' + line + '"')
