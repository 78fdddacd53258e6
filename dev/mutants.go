package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// mutant is one planted bug: a guard of a gateway taken away. The conformance suite must fail on each.
type mutant struct {
	name string // what the bug is, as a sentence
	file string // from the module's top
	old  string // stands exactly once in the file
	new  string
	run  string // the tests that must catch it; empty = the gateway's conformance suite
}

// pkg is the package whose tests judge the mutant.
func (m mutant) pkg() string { return "./" + filepath.ToSlash(filepath.Dir(m.file)) }

// plant returns the file with the bug in it.
func (m mutant) plant() ([]byte, error) {
	src, err := os.ReadFile(m.file)
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(src), m.old); n != 1 {
		return nil, fmt.Errorf("%s: the text to replace stands %d times in %s, not once: bring the list of mutants up to date", m.name, n, m.file)
	}
	return []byte(strings.Replace(string(src), m.old, m.new, 1)), nil
}

type mutantsCommand struct {
	Only string `help:"Only mutants whose name or file contains this."`
}

// Run plants each bug by itself, without touching the tree (go test -overlay), and reports whether a test caught it.
func (c *mutantsCommand) Run(ctx context.Context) error {
	say := progress()
	dir, err := os.MkdirTemp("", "orderflow-mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	survived, ran := 0, 0
	for i, m := range mutants {
		if !strings.Contains(m.name+m.file, c.Only) {
			continue
		}
		verdict, err := judge(ctx, m, filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			return err
		}
		if ran++; verdict != "" {
			survived++
			say(fmt.Sprintf("SURVIVED  %s: %s (%s)", filepath.Dir(m.file), m.name, verdict))
			continue
		}
		say(fmt.Sprintf("caught    %s: %s", filepath.Dir(m.file), m.name))
	}
	say(fmt.Sprintf("%d of %d planted bugs caught", ran-survived, ran))
	if survived > 0 || ran == 0 {
		return errors.New("a planted bug was not caught: the suite has a hole")
	}
	return nil
}

// judge returns "" for a mutant that a test has caught, and otherwise why it counts as survived.
func judge(ctx context.Context, m mutant, dir string) (string, error) {
	planted, err := m.plant()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	abs, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	file, list := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {abs: file}})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(file, planted, 0o600), os.WriteFile(list, overlay, 0o600)); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	run := m.run
	if run == "" {
		run = "Conformance"
	}
	out, err := exec.CommandContext(ctx, "go", "test", "-overlay", list, "-count=1", "-failfast", "-run", run, m.pkg()).CombinedOutput()
	switch {
	case err == nil:
		return "every test passed", nil
	case !strings.Contains(string(out), "--- FAIL") && !strings.Contains(string(out), "panic:"):
		return "", fmt.Errorf("%s: the tests did not run:\n%s", m.name, out)
	}
	return "", nil
}
