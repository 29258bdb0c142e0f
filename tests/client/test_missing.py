import subprocess
import sys


def test_without_redis_py_the_client_says_how_to_get_it() -> None:
    words = "import sys; sys.modules['redis'] = None; import disque.client"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, check=False)
    told = done.stderr.decode().strip().splitlines()[-1]
    assert told == "ImportError: the client needs redis-py: pip install 'disque-server[client]'"
