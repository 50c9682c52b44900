#!/usr/bin/env bash
# Sees to it that a real Apache Kafka is there for the tests: Java, and Kafka's jars in the user's cache, where
# internal/kafkatest looks for them. It installs the system's packages of Java and Maven if they are missing and it may.
# Khata itself needs none of it. Where Kafka cannot be had, CI fails; elsewhere the tests that need it are skipped, and
# this says so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

oldest=17
pom=kafka/pom.xml
version=$(sed -n 's|.*<kafka.version>\(.*\)</kafka.version>.*|\1|p' "$pom")
home=${XDG_CACHE_HOME:-$HOME/.cache}/khata/kafka-$version

# without ends this where Kafka cannot be had.
without() {
	printf 'Kafka: %s\n' "$*" >&2
	[ "${CI:-}" != true ] || exit 1
	echo "Kafka: the tests against a real Kafka will be skipped (those against the fake one run)" >&2
	exit 0
}

# java_major prints the major version of the java on PATH, or nothing if there is none that runs.
java_major() {
	(java -version 2>&1 || true) | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1
}

has_jars() { compgen -G "$1/kafka_2.13-*.jar" >/dev/null; }

# The pom beside the jars is the one that they were fetched by.
fetched() { has_jars "$home/lib" && cmp -s "$pom" "$home/pom.xml"; }

# apt installs a package quietly; what apt-get printed is shown only if it failed.
updated=
apt() {
	local as_root=() log package=$1
	command -v apt-get >/dev/null || without "the package $package is needed and cannot be installed by itself: $2"
	if [ "$(id -u)" -ne 0 ]; then
		as_root=(sudo -n)
		sudo -n true 2>/dev/null || without "run 'sudo apt-get install $package': $2"
	fi
	echo "Kafka: installing the package $package"
	log=$(mktemp)
	if { [ -n "$updated" ] || "${as_root[@]}" apt-get -q -o DPkg::Lock::Timeout=120 update; } >"$log" 2>&1 </dev/null &&
		"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=120 \
			install --no-install-recommends "$package" >"$log" 2>&1 </dev/null; then
		updated=1
		rm -f "$log"
		return
	fi
	cat "$log" >&2
	rm -f "$log"
	without "'apt-get install $package' failed: $2"
}

java=$(java_major)
if [ "${java:-0}" -lt "$oldest" ]; then
	why="Kafka needs Java $oldest or newer on PATH, and there is ${java:-none}"
	apt default-jre-headless "$why"
	java=$(java_major)
	[ "${java:-0}" -ge "$oldest" ] || without "$why"
fi

if [ -n "${KHATA_KAFKA_LIB:-}" ]; then
	has_jars "$KHATA_KAFKA_LIB" || without "KHATA_KAFKA_LIB=$KHATA_KAFKA_LIB holds no kafka_2.13-*.jar: set it to the libs directory of a Kafka"
	echo "Kafka: in $KHATA_KAFKA_LIB, with Java $java"
	exit 0
fi

if ! fetched; then
	command -v mvn >/dev/null || apt maven "Maven fetches Kafka's jars"
	echo "Kafka: fetching $version"
	mkdir -p "${home%/*}"
	# Renamed when it is whole, so that one that was broken off is not taken for it.
	fresh=$(mktemp -d "$home.XXXXXX")
	trap 'rm -rf "$fresh"' EXIT
	mvn -q -B -Dstyle.color=never -f "$pom" org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy-dependencies \
		-DincludeScope=runtime -DoutputDirectory="$fresh/lib" </dev/null ||
		without "Maven could not fetch the jars that .ci/$pom names; above it says why"
	cp "$pom" "$fresh/pom.xml"
	rm -rf "$home"
	mv "$fresh" "$home"
fi
echo "Kafka: $version in $home/lib, with Java $java"
