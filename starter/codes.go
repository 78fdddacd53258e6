package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"orderflow/internal/fault"
)

type codesCommand struct {
	JSON bool `help:"As JSON."`
}

// Run prints the retry table.
func (c codesCommand) Run(s *streams) error { return writeCodes(s.out, fault.Table(), c.JSON) }

type codeRow struct {
	Code          fault.Code  `json:"code"`
	Class         fault.Class `json:"class"`
	Retry         bool        `json:"retry"`
	LookFirst     bool        `json:"look_first"`
	Review        bool        `json:"review"`
	FirstDelay    string      `json:"first_delay,omitempty"`
	LongestDelay  string      `json:"longest_delay,omitempty"`
	Tries         int         `json:"tries,omitempty"`
	LongestInsist string      `json:"longest_total,omitempty"`
	Meaning       string      `json:"meaning"`
}

func writeCodes(w io.Writer, table []fault.Policy, asJSON bool) error {
	rows := make([]codeRow, len(table))
	for i, p := range table {
		rows[i] = codeRow{p.Code, p.Class, p.Retry, p.Look, p.Review, duration(p.First), duration(p.Max), p.Tries, duration(p.MaxTotal), p.Meaning}
	}
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(rows)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, "CODE\tCLASS\tRETRY\tLOOK FIRST\tREVIEW\tDELAYS\tBOUND\tMEANING")
	for _, r := range rows {
		delays, bound := "-", "-"
		if r.Retry {
			delays, bound = r.FirstDelay+" to "+r.LongestDelay, fmt.Sprintf("%d tries, %s", r.Tries, r.LongestInsist)
		}
		_, _ = fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Code, r.Class, yes(r.Retry), yes(r.LookFirst), yes(r.Review), delays, bound, r.Meaning)
	}
	return tw.Flush()
}

func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
