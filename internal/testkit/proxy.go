package testkit

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// TCPProxy stands between a client and PostgreSQL and can lose exactly one answer: that of a COMMIT which the server has
// carried out. The client then does not know whether its transaction holds; it does.
type TCPProxy struct {
	upstream string
	listener net.Listener
	wait     sync.WaitGroup

	mu     sync.Mutex
	down   bool
	links  map[*link]struct{}
	losses []*Loss
}

// CommitFilter chooses the COMMIT whose answer is lost.
type CommitFilter struct {
	// After is a part of an SQL text that the transaction must have run; empty takes any transaction.
	After string
	// Nth counts the commits that After fits, from one; 0 means the first.
	Nth int
}

// Loss is one armed loss. It fires once.
type Loss struct {
	filter CommitFilter
	seen   int
	fired  chan struct{}
}

// Fired is closed when the server has committed, right before the client's connection is cut instead of answered: a client
// that has its error finds it closed.
func (l *Loss) Fired() <-chan struct{} { return l.fired }

// NewTCPProxy starts a proxy in front of the server in databaseURL; it ends with the test.
func NewTCPProxy(t testing.TB, databaseURL string) *TCPProxy {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil || u.Host == "" {
		t.Fatal("the proxy needs a postgres:// URL with a host")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), "5432")
	}
	p := &TCPProxy{upstream: host, listener: l, links: map[*link]struct{}{}}
	p.wait.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.Down()
		p.wait.Wait()
	})
	return p
}

// Through is databaseURL led through the proxy. TLS is off on this leg, since the proxy reads what is said.
func (p *TCPProxy) Through(databaseURL string) string {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return ""
	}
	u.Host = p.listener.Addr().String()
	q := u.Query()
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	return u.String()
}

// LoseCommitAnswer arms one loss.
func (p *TCPProxy) LoseCommitAnswer(filter CommitFilter) *Loss {
	filter.Nth = max(filter.Nth, 1)
	l := &Loss{filter: filter, fired: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.losses = append(p.losses, l)
	return l
}

// Down cuts every connection and takes no new ones: PostgreSQL as seen over a broken network.
func (p *TCPProxy) Down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for l := range p.links {
		l.cut()
	}
}

// Up takes connections again.
func (p *TCPProxy) Up() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

func (p *TCPProxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wait.Go(func() { p.serve(c) })
	}
}

func (p *TCPProxy) serve(c net.Conn) {
	s, err := net.Dial("tcp", p.upstream)
	if err != nil {
		_ = c.Close()
		return
	}
	l := &link{client: c, server: s, statements: map[string]string{}}
	if !p.add(l) {
		l.cut()
		return
	}
	defer p.remove(l)
	defer l.cut()
	if err := l.startup(); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { defer l.cut(); _ = l.forward() })
	both.Go(func() { defer l.cut(); _ = l.back(p.loses) })
	both.Wait()
}

func (p *TCPProxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.down {
		p.links[l] = struct{}{}
	}
	return !p.down
}

func (p *TCPProxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// loses decides over one commit that the server has confirmed; the loss is reported before cut lets the client know.
func (p *TCPProxy) loses(texts []string, cut func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, l := range p.losses {
		if !contains(texts, l.filter.After) {
			continue
		}
		if l.seen++; l.seen < l.filter.Nth {
			continue
		}
		p.losses = append(p.losses[:i:i], p.losses[i+1:]...)
		close(l.fired)
		cut()
		return true
	}
	return false
}

func contains(texts []string, part string) bool {
	if part == "" {
		return true
	}
	for _, t := range texts {
		if strings.Contains(t, part) {
			return true
		}
	}
	return false
}

// link is one client's connection. Requests are numbered by the answers that end them: every Query and every Sync is
// answered by one ReadyForQuery, so a commit is matched with its own answer even when requests are sent in advance.
type link struct {
	client, server net.Conn

	mu         sync.Mutex
	statements map[string]string // prepared name -> SQL
	texts      []string          // SQL run in the transaction that is open
	commits    []commit          // sent, not answered yet
	asked      int               // Query and Sync messages sent
	answered   int               // ReadyForQuery messages received
}

type commit struct {
	ends  int // the ReadyForQuery that ends its request
	texts []string
}

func (l *link) cut() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// startup passes the untyped first messages on. A wish for encryption is answered with no.
func (l *link) startup() error {
	const sslRequest, gssRequest = 80877103, 80877104
	for {
		head := make([]byte, 8)
		if _, err := io.ReadFull(l.client, head); err != nil {
			return err
		}
		if code := binary.BigEndian.Uint32(head[4:]); code == sslRequest || code == gssRequest {
			if _, err := l.client.Write([]byte("N")); err != nil {
				return err
			}
			continue
		}
		size := binary.BigEndian.Uint32(head)
		if size < 8 || size > 1<<20 {
			return fmt.Errorf("a startup message of %d bytes", size)
		}
		body := make([]byte, size-8)
		if _, err := io.ReadFull(l.client, body); err != nil {
			return err
		}
		_, err := l.server.Write(append(head, body...))
		return err
	}
}

// message reads one typed message, whole.
func message(from io.Reader) ([]byte, error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size < 4 || size > 1<<30 {
		return nil, fmt.Errorf("a message of %d bytes", size)
	}
	whole := make([]byte, 5+size-4)
	copy(whole, head)
	_, err := io.ReadFull(from, whole[5:])
	return whole, err
}

// forward notes what the client asks, then passes it on: the note is there before an answer can be.
func (l *link) forward() error {
	for {
		m, err := message(l.client)
		if err != nil {
			return err
		}
		l.note(m[0], m[5:])
		if _, err := l.server.Write(m); err != nil {
			return err
		}
	}
}

func (l *link) note(kind byte, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch kind {
	case 'Q': // Query: text
		text, _ := cString(body)
		l.asked++
		l.run(text, l.asked)
	case 'P': // Parse: statement name, text
		name, rest := cString(body)
		text, _ := cString(rest)
		l.statements[name] = text
	case 'B': // Bind: portal, statement name. pgx executes what it binds.
		_, rest := cString(body)
		name, _ := cString(rest)
		l.run(l.statements[name], l.asked+1)
	case 'S': // Sync
		l.asked++
	}
}

// run notes one statement; ends is the number of the answer that will end its request.
func (l *link) run(text string, ends int) {
	switch word, more, _ := strings.Cut(strings.ToLower(strings.Trim(text, " \t\r\n;")), " "); {
	case word == "begin" || word == "start":
		l.texts = nil
	case word == "commit" || word == "end":
		l.commits = append(l.commits, commit{ends: ends, texts: l.texts})
		l.texts = nil
	case word == "rollback" && !strings.Contains(more, "to ") || word == "abort":
		l.texts = nil
	default:
		l.texts = append(l.texts, text)
	}
}

func cString(b []byte) (string, []byte) {
	for i, c := range b {
		if c == 0 {
			return string(b[:i]), b[i+1:]
		}
	}
	return string(b), nil
}

// back passes the server's answers on, except the one that a loss takes.
func (l *link) back(loses func(texts []string, cut func()) bool) error {
	for {
		m, err := message(l.server)
		if err != nil {
			return err
		}
		if m[0] == 'C' && string(m[5:]) == "COMMIT\x00" {
			if texts, ok := l.confirmed(); ok && loses(texts, l.cut) {
				return nil
			}
		}
		if m[0] == 'Z' {
			l.ready()
		}
		if _, err := l.client.Write(m); err != nil {
			return err
		}
	}
}

func (l *link) confirmed() ([]string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.commits) == 0 {
		return nil, false
	}
	first := l.commits[0]
	l.commits = l.commits[1:]
	return first.texts, true
}

// ready forgets commits whose request ended without their answer, such as one refused by a deferred constraint. The
// first ReadyForQuery belongs to the startup, and answers no request.
func (l *link) ready() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.commits) > 0 && l.commits[0].ends <= l.answered {
		l.commits = l.commits[1:]
	}
	l.answered++
}
