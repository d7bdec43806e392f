# Private PostgreSQL and MariaDB servers from the distribution's packages. Sourced by tests/run and tests/bench.
# shellcheck shell=bash
#
# The sourcing script sets:
#     folder            where the servers keep their files; their own users must be able to pass through it
#     target            where logs are kept after a failure
#     want_postgres, want_mariadb
#                       not empty: this server is to be started
#     want_pgbouncer    not empty: its package is needed too, to be started by whoever uses it
#     postgres_settings more lines for postgresql.conf
#     mariadb_settings  more arguments for mariadbd, an array
#     instead_of_packages
#                       what else can be done where packages are missing: a clause
# It calls find_programs, install_missing, start_servers, and stop_servers at its end; start_servers sets postgres_url and
# mysql_url.
#
# Exits with 3 if packages are missing and may not be installed, with 4 if a server does not start.

# Enough for a slow machine; each wait ends as soon as its condition holds.
START_SECONDS_MAX=90
# Two runs may pick the same free port.
START_TRIES_MAX=5

mariadb_pid=
postgres_bin=
postgres_url=
mysql_url=

say() { printf '%s: %s\n' "$script" "$*"; }
fail() { local code=$1; shift; printf '%s: %s\n' "$script" "$*" >&2; exit "$code"; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }
# A server's program refuses to run as root, so it gets its own user then.
as_user() { local user=$1; shift; if [ "$(id -u)" = 0 ]; then runuser -u "$user" -- "$@"; else "$@"; fi; }

# Nothing in them is kept, so they may die on the spot.
stop_servers() {
    if [ -n "$postgres_bin" ] && [ -f "$folder/postgres/data/postmaster.pid" ]; then
        as_user postgres "$postgres_bin/pg_ctl" -D "$folder/postgres/data" -m immediate -t 30 stop >/dev/null 2>&1 || true
    fi
    if [ -n "$mariadb_pid" ]; then
        kill -KILL "$mariadb_pid" 2>/dev/null && wait "$mariadb_pid" 2>/dev/null || true
    fi
}

keep_logs() {
    local log kept
    for log in "$folder/postgres/server.log" "$folder/mariadb/server.log"; do
        [ -f "$log" ] || continue
        kept=$target/test-logs/$(basename "$(dirname "$log")").log
        mkdir -p "$target/test-logs" && cp "$log" "$kept" && chmod u=rw,go=r "$kept" && say "server log kept: $kept"
    done
}

find_programs() {
    # A user's own path often lacks the folder of the servers.
    PATH=$PATH:/usr/sbin:/sbin
    postgres_bin=$(printf '%s\n' /usr/lib/postgresql/*/bin/initdb | sort -V | tail -n 1)
    [ -x "$postgres_bin" ] || postgres_bin=
    [ -n "$postgres_bin" ] || postgres_bin=$(command -v initdb || true)
    [ -z "$postgres_bin" ] || postgres_bin=$(dirname "$postgres_bin")
    mariadbd=$(command -v mariadbd || true)
    pgbouncer=$(command -v pgbouncer || true)
}

missing_packages() {
    local missing=()
    if [ -n "$want_postgres" ] && [ -z "$postgres_bin" ]; then missing+=(postgresql); fi
    if [ -n "$want_mariadb" ] && [ -z "$mariadbd" ]; then missing+=(mariadb-server); fi
    if [ -n "${want_pgbouncer:-}" ] && [ -z "$pgbouncer" ]; then missing+=(pgbouncer); fi
    printf '%s' "${missing[*]}"
}

install_missing() {
    local missing
    missing=$(missing_packages)
    [ -z "$missing" ] || install_packages "$missing"
}

install_packages() {
    local missing=$1 policy=/usr/sbin/policy-rc.d clusters=/etc/postgresql-common/createcluster.conf made_policy=
    if ! command -v apt-get >/dev/null || { [ "$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; }; then
        say "the servers' programs are missing; as root: apt-get update && apt-get install -y $missing"
        fail 3 "or $instead_of_packages"
    fi
    say "installing $missing"
    # The packages start a service each, unless this file says no.
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
        as_root chmod 755 "$policy"
        made_policy=1
    fi
    # And one makes a cluster, of which the tests have no use.
    if [ ! -e "$clusters" ]; then
        as_root mkdir -p "$(dirname "$clusters")"
        printf '# Written before the package was installed, to run tests only.\ncreate_main_cluster = false\n' |
            as_root tee "$clusters" >/dev/null
    fi
    local log=$folder/apt.log installed=1
    # shellcheck disable=SC2086  # a list of packages
    as_root apt-get update -q >"$log" 2>&1 </dev/null &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
            -o Dpkg::Options::=--force-confold $missing >>"$log" 2>&1 </dev/null || installed=
    [ -z "$made_policy" ] || as_root rm -f "$policy"
    if [ -z "$installed" ]; then
        tail -n 20 "$log" >&2
        fail 3 "apt-get failed; by hand: apt-get update && apt-get install -y $missing"
    fi
    find_programs
    [ -z "$(missing_packages)" ] || fail 3 "installed, but still not found: $(missing_packages)"
}

# A port of the loopback at which nobody answers.
free_port() {
    local port
    while port=$((20000 + RANDOM % 12000)); do
        if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            printf '%s' "$port"
            return
        fi
    done
}

start_servers() {
    password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    [ -z "$want_postgres" ] || start_postgres
    [ -z "$want_mariadb" ] || start_mariadb
}

start_postgres() {
    local home=$folder/postgres port try
    mkdir -m 700 "$home"
    printf '%s' "$password" >"$home/password"
    if [ "$(id -u)" = 0 ]; then chown -R postgres "$home"; fi
    as_user postgres "$postgres_bin/initdb" --pgdata "$home/data" --username earmark --pwfile "$home/password" \
        --auth scram-sha-256 --encoding UTF8 --locale C.UTF-8 --no-sync >"$home/initdb.log" 2>&1 ||
        { cat "$home/initdb.log" >&2; fail 4 "initdb failed"; }
    # Durable, as the store demands of its databases; --no-sync above is about the empty cluster alone.
    as_user postgres tee -a "$home/data/postgresql.conf" >/dev/null <<CONF
listen_addresses = '127.0.0.1'
unix_socket_directories = '$home'
max_connections = 300
fsync = on
synchronous_commit = on
full_page_writes = on
$postgres_settings
CONF
    for ((try = 1; try <= START_TRIES_MAX; try++)); do
        port=$(free_port)
        if as_user postgres "$postgres_bin/pg_ctl" -D "$home/data" -o "-p $port" -l "$home/server.log" \
            -w -t "$START_SECONDS_MAX" start >/dev/null 2>&1 </dev/null; then
            postgres_url=postgres://earmark:$password@127.0.0.1:$port/postgres
            say "PostgreSQL $("$postgres_bin/postgres" --version | sed 's/.*) \([0-9.]*\).*/\1/') on port $port"
            return
        fi
    done
    tail -n 20 "$home/server.log" >&2
    fail 4 "PostgreSQL did not start"
}

start_mariadb() {
    local home=$folder/mariadb port try deadline user=()
    mkdir -m 700 "$home" "$home/data"
    if [ "$(id -u)" = 0 ]; then user=(--user=mysql); chown -R mysql "$home"; fi
    mariadb-install-db --no-defaults "${user[@]}" --datadir="$home/data" --auth-root-authentication-method=normal \
        --skip-test-db --skip-name-resolve >"$folder/install-db.log" 2>&1 </dev/null ||
        { tail -n 20 "$folder/install-db.log" >&2; fail 4 "mariadb-install-db failed"; }
    # Executed by the server before anybody can connect.
    cat >"$home/users.sql" <<SQL
ALTER USER root@localhost IDENTIFIED BY '$password';
CREATE OR REPLACE USER earmark@127.0.0.1 IDENTIFIED BY '$password';
GRANT ALL ON *.* TO earmark@127.0.0.1 WITH GRANT OPTION;
SQL
    if [ "$(id -u)" = 0 ]; then chown mysql "$home/users.sql"; fi
    for ((try = 1; try <= START_TRIES_MAX; try++)); do
        port=$(free_port)
        # --no-defaults: the character set is then the server's own latin1, which the tables have to survive.
        "$mariadbd" --no-defaults "${user[@]}" --datadir="$home/data" --socket="$home/socket" --port="$port" \
            --bind-address=127.0.0.1 --pid-file="$home/pid" --init-file="$home/users.sql" --skip-name-resolve \
            --max-connections=500 --innodb-flush-log-at-trx-commit=1 "${mariadb_settings[@]}" >>"$home/server.log" 2>&1 </dev/null &
        mariadb_pid=$!
        deadline=$((SECONDS + START_SECONDS_MAX))
        while kill -0 "$mariadb_pid" 2>/dev/null && [ "$SECONDS" -lt "$deadline" ]; do
            if mariadb-admin --no-defaults --socket="$home/socket" --silent ping >/dev/null 2>&1 </dev/null; then
                mysql_url=mysql://earmark:$password@127.0.0.1:$port/mysql
                say "MariaDB $("$mariadbd" --version | sed 's/.*Ver \([0-9.]*\).*/\1/') on port $port"
                return
            fi
            sleep 0.1
        done
        kill -KILL "$mariadb_pid" 2>/dev/null || true
        wait "$mariadb_pid" 2>/dev/null || true
        mariadb_pid=
    done
    tail -n 20 "$home/server.log" >&2
    fail 4 "MariaDB did not start"
}
