// Package profiles serves Go's CPU and memory profiles on a health listener, for whoever measures a running process.
//
// It must not know what the process does, and serves nothing unless it is asked to and the listener is this machine's own:
// a profile shows the inside of a program. It may import the standard library only.
package profiles

import (
	"net"
	"net/http"
	"net/http/pprof"
	"os"
)

// Env names the variable that asks for profiles; its value must be 1.
const Env = "ORDERFLOW_PPROF"

// Beside adds /debug/pprof/ to a health handler when ORDERFLOW_PPROF is 1 and listen is a loopback address; otherwise it
// returns the handler as it is.
func Beside(health http.Handler, listen string) http.Handler {
	if os.Getenv(Env) != "1" || !loopback(listen) {
		return health
	}
	mux := http.NewServeMux()
	mux.Handle("/", health)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// loopback takes only addresses, not names: what a name leads to can change.
func loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
