#!/usr/bin/env bash
# fetch-ruby.sh: put this distribution's Ruby into .cache/ruby, unpacked, for the test of Open OnDemand's widget.
set -euo pipefail
# shellcheck source=.ci/make/apt.sh
. "$(dirname "$0")/apt.sh"

dir=$apt_root/.cache/ruby
[ -x "$dir/ruby" ] && exit 0
rm -rf "$dir"
mkdir -p "$dir"
program=$(apt_depends ruby | grep -x 'ruby[0-9.]*')
library=$(apt_depends "$program" | grep -x 'libruby[0-9.]*')
apt_download "$dir" "$program" "$library"
for package in "$dir"/*.deb; do dpkg-deb -x "$package" "$dir"; done
rm "$dir"/*.deb
libraries=$(echo "$dir"/usr/lib/*-linux-gnu)
version=$(basename "$(echo "$dir"/usr/lib/ruby/[0-9]*)")
cat >"$dir/ruby" <<EOF
#!/bin/sh
LD_LIBRARY_PATH='$libraries' RUBYLIB='$dir/usr/lib/ruby/$version:$libraries/ruby/$version' exec '$dir/usr/bin/$program' --disable-gems "\$@"
EOF
chmod 755 "$dir/ruby"
echo "Ruby unpacked in $dir"
