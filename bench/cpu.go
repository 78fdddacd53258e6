package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU times in /proc: 1/100 s on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// reading is one look at the meters.
type reading struct {
	cpu    map[string]time.Duration // by process; empty where the system has no /proc
	writes int64                    // transactions that wrote, in the whole database cluster, from its counter
}

func (r reading) cpuSince(before reading) map[string]time.Duration {
	out := map[string]time.Duration{}
	for name, now := range r.cpu {
		out[name] = now - before.cpu[name]
	}
	return out
}

// meter reads the CPU time of every process that works for an order, this one included, and PostgreSQL's counter.
func (l *lab) meter(ctx context.Context) (reading, error) {
	r := reading{cpu: map[string]time.Duration{}}
	for name, pid := range l.processes() {
		if d, err := cpuOf(pid, name == "postgres"); err == nil {
			r.cpu[name] = d
		}
	}
	err := l.db.QueryRow(ctx, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").Scan(&r.writes)
	return r, err
}

// cpuOf is the user and system time of a process; with children also that of its living and reaped children, which is how
// PostgreSQL works.
func cpuOf(pid int, children bool) (time.Duration, error) {
	f, err := statOf(strconv.Itoa(pid))
	if err != nil {
		return 0, err
	}
	total := f.own
	if !children {
		return total, nil
	}
	total += f.reaped
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, dir := range all {
		if c, err := statOf(filepath.Base(dir)); err == nil && c.parent == pid {
			total += c.own
		}
	}
	return total, nil
}

type procStat struct {
	parent      int
	own, reaped time.Duration
}

// statOf reads /proc/PID/stat. The program's name in it may hold anything, so fields count from its closing parenthesis.
func statOf(pid string) (procStat, error) {
	raw, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return procStat{}, err
	}
	return parseStat(string(raw))
}

func parseStat(raw string) (procStat, error) {
	end := strings.LastIndexByte(raw, ')')
	if end < 0 {
		return procStat{}, errors.New("not a process's stat line")
	}
	f := strings.Fields(raw[end+1:])
	if len(f) < 15 {
		return procStat{}, errors.New("not a process's stat line")
	}
	n := func(i int) int64 {
		v, _ := strconv.ParseInt(f[i], 10, 64)
		return v
	}
	return procStat{parent: int(n(1)), own: time.Duration(n(11)+n(12)) * tick, reaped: time.Duration(n(13)+n(14)) * tick}, nil
}
