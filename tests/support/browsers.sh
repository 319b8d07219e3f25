#!/usr/bin/env bash
# Chromium and Firefox for the tests of the page, which run them headless.
# Debian (on Ubuntu the packages are snaps, which containers cannot run), as root:   tests/support/browsers.sh install | status
set -euo pipefail

chromium_path() { command -v chromium || command -v chromium-browser || command -v google-chrome; }
firefox_path() { command -v firefox || command -v firefox-esr; }

install() {
  chromium_path >/dev/null && firefox_path >/dev/null && return
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium firefox-esr fonts-dejavu-core >/dev/null
}

status() {
  "$(chromium_path)" --version --no-sandbox
  "$(firefox_path)" --version
}

case "${1:-}" in
  install | status) "$1" ;;
  *)
    sed -n 2,3p "$0"
    exit 2
    ;;
esac
