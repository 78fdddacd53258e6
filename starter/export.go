package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"orderflow/store"
)

type exportCommand struct{}

// sayEvery is how often an export says how far it is.
const sayEvery = 5 * time.Second

// Run writes the audit export to the standard output and says on stderr how far it is.
func (exportCommand) Run(ctx context.Context, s *streams) error {
	c, _, err := s.load()
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, c.DatabaseURL.Reveal(), 1, store.Options{})
	if err != nil {
		return err
	}
	defer st.Close()
	x := exporter{out: bufio.NewWriterSize(s.out, 64<<10), said: time.Now()}
	x.say = func(kind string) { say(s, fmt.Sprintf("%d rows, at %s", x.rows, kind)) }
	err = st.Export(ctx, x.head, x.row)
	if err == nil {
		err = x.line("end", []byte(fmt.Sprintf(`{"rows":%d}`, x.rows)))
	}
	if err == nil {
		err = x.out.Flush()
	}
	if err != nil {
		return errors.Join(errors.New("the export ended early; its file has no last line of kind end"), err)
	}
	say(s, fmt.Sprintf("%d rows exported", x.rows))
	return nil
}

// exporter writes one line per row.
type exporter struct {
	out  *bufio.Writer
	say  func(kind string)
	said time.Time
	rows int64
}

func (x *exporter) head(h store.ExportHead) error {
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return x.line("export", b)
}

func (x *exporter) row(kind string, row []byte) error {
	x.rows++
	if time.Since(x.said) > sayEvery {
		x.said = time.Now()
		x.say(kind)
	}
	return x.line(kind, row)
}

func (x *exporter) line(kind string, row []byte) error {
	for _, part := range []string{`{"kind":"`, kind, `","row":`} { // kinds are words of ours
		if _, err := io.WriteString(x.out, part); err != nil {
			return err
		}
	}
	if _, err := x.out.Write(row); err != nil {
		return err
	}
	_, err := x.out.WriteString("}\n")
	return err
}
