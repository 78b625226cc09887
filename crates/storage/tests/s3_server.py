"""moto's S3 server with what tests of durability need: keys that are checked, and objects that survive `kill -9`.

    python s3_server.py DIRECTORY [PORT]

Its objects lie in DIRECTORY, written before the answer that acknowledges them is sent; a server started there again has
them. Uploads in parts that were not completed are lost, which S3 allows; a file `part` beside DIRECTORY says that a part
has come. There is one bucket, `pavlov`. Prints one line, `PORT KEY SECRET READER_KEY READER_SECRET` (the reader may list
and get), and ends with its standard input.
"""

import json
import os
import sys
import threading
from pathlib import Path
from urllib.parse import quote, unquote

os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = "0"

from moto.core import DEFAULT_ACCOUNT_ID as ACCOUNT
from moto.iam.models import iam_backends
from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import make_server

S3 = s3_backends[ACCOUNT]["aws"]
IAM = iam_backends[ACCOUNT]["aws"]


class Durable:
    """The application `app` with its objects in the folder `directory`; it writes in the one above, too.

    A bucket is a folder and an object a file by its percent-encoded key: a line of metadata, then the content.
    """

    def __init__(self, app, directory):
        self.app, self.directory, self.lock = app, directory, threading.Lock()
        # By bucket and key, the object that lies on disk.
        self.saved = {}
        for folder in directory.iterdir():
            S3.create_bucket(folder.name, "us-east-1")
            saved = self.saved[folder.name] = {}
            for path in folder.iterdir():
                metadata, content = path.read_bytes().split(b"\n", 1)
                name = unquote(path.name)
                saved[name] = S3.put_object(folder.name, name, content, disable_notification=True)
                saved[name].set_metadata(json.loads(metadata))

    def __call__(self, environ, start_response):
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return self.app(environ, start_response)
        with self.lock:
            answer = list(self.app(environ, start_response))
            self.save()
        if "partNumber=" in environ["QUERY_STRING"]:
            (self.directory.parent / "part").touch()
        return answer

    def save(self):
        for bucket in S3.buckets.values():
            folder = self.directory / bucket.name
            folder.mkdir(exist_ok=True)
            now, saved = dict(bucket.keys.items()), self.saved.setdefault(bucket.name, {})
            for name in saved.keys() - now.keys():
                (folder / quote(name, safe="")).unlink()
                del saved[name]
            for name, key in now.items():
                if saved.get(name) is not key:
                    beside = self.directory.parent / "beside"
                    beside.write_bytes(json.dumps(dict(key.metadata)).encode() + b"\n" + key.value)
                    os.replace(beside, folder / quote(name, safe=""))
                    saved[name] = key


def user(name, secret, actions):
    IAM.create_user("us-east-1", name)
    statement = {"Effect": "Allow", "Action": actions, "Resource": "*"}
    IAM.put_user_policy(name, name, json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    key = IAM.create_access_key(name)
    # The same after a restart.
    IAM.access_keys[name.upper()] = IAM.access_keys.pop(key.access_key_id)
    key.access_key_id, key.secret_access_key = name.upper(), secret
    return key


def end_with_input():
    sys.stdin.read()
    os._exit(0)


def main():
    directory = Path(sys.argv[1])
    (directory / "pavlov").mkdir(parents=True, exist_ok=True)
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    keys = user("writer", "writer-secret", ["s3:*"]), user("reader", "reader-secret", ["s3:Get*", "s3:List*"])
    app = Durable(create_backend_app("s3"), directory)
    server = make_server("127.0.0.1", port, app, threaded=True, request_handler=MotoRequestHandler)
    threading.Thread(target=end_with_input, daemon=True).start()
    print(server.server_port, *(f"{key.access_key_id} {key.secret_access_key}" for key in keys), flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
