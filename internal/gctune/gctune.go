// Package gctune sets how often a long-running process of ours collects garbage.
//
// It must not know what the process does. It may import the standard library only.
package gctune

import (
	"os"
	"runtime/debug"
)

// Percent is how much a heap may grow before it is collected. What worker and starter keep is some ten megabytes, and an
// order allocates about one: with Go's 100 they would collect every few orders. The bench counts 7 % of their time for it.
const Percent = 400

// Set applies Percent, unless GOGC says otherwise. GOMEMLIMIT holds as ever: near it, collections come sooner.
func Set() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(Percent)
	}
}
