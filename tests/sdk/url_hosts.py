"""Which host Python's HTTP clients take from a URL: urllib, requests (urllib3), httpx, aiohttp (yarl).

usage: url_hosts.py

Prints READY, then for each line, a list of URLs, a line with a list for each URL: the host of each parser, or null where it
refuses the URL.
"""

import json
import sys
from urllib.parse import urlsplit

import httpx
import yarl
from requests import PreparedRequest
from urllib3.util import parse_url


def by_urllib(url):
    # http.client encodes the name before it is resolved.
    return urlsplit(url).hostname.encode("idna").decode()


def by_requests(url):
    # requests prepares a URL before urllib3 connects to its host.
    prepared = PreparedRequest()
    prepared.prepare_url(url, None)
    return parse_url(prepared.url).host


PARSERS = [
    by_urllib,
    by_requests,
    lambda url: parse_url(url).host,
    lambda url: httpx.URL(url).host,
    lambda url: yarl.URL(url).host,
]


def host(parser, url):
    try:
        return parser(url) or None
    except Exception:  # Each library has its own errors.
        return None


print("READY", flush=True)
for line in sys.stdin:
    print(json.dumps([[host(parser, url) for parser in PARSERS] for url in json.loads(line)]), flush=True)
