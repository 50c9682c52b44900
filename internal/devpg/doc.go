// Package devpg runs a private PostgreSQL as a child of this process: the
// database of "khata up", of the tests, and of "khata verify --data-dir".
//
// The server binaries are the system's, found at run time. The server listens
// on a Unix socket in a directory that only its own user and root may enter,
// and on no TCP port. It shuts down when this process ends, however it ends,
// and a later start on the same directory needs no repair by hand.
//
// A directory given as Config.Dir holds:
//
//	supervisor.lock  flock held by the process that called Start
//	lock             flock held by that process and by every process of the cluster
//	data/            the cluster (PGDATA)
//	data.init/       a cluster that initdb has not finished; deleted at the next start
//	sock/            the socket; emptied at each start
//	postgres.log     what postgres and initdb print
//
// PostgreSQL refuses to run as root. When the caller is root, the server runs
// as the owner of data/, else of the directory, or, where that is root, as
// "postgres", else as "nobody". data/ and sock/ belong to that user, and the other
// files to the owner of the directory.
//
// The package must never delete or overwrite a cluster: data/ is created by one
// rename and after that only PostgreSQL writes to it.
package devpg
