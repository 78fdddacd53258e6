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

// TCPProxy stands between a client and PostgreSQL and can lose exactly one answer: that of a COMMIT, or of a statement that
// is a transaction by itself, which the server has carried out. The client then does not know whether it holds; it does.
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
	// Alone means statements that are sent outside BEGIN and COMMIT, instead of transactions.
	Alone bool
	// Hold leaves the client waiting for the answer instead of cutting its connection, so that it can be killed at exactly
	// this point.
	Hold bool
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
	both.Go(func() { defer l.cut(); _ = l.back(p) })
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

// loses decides over one commit that the server has confirmed. A client that is cut off finds the loss reported.
func (p *TCPProxy) loses(c commit, cut func()) (lost, hold bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, l := range p.losses {
		if !l.filter.fits(c) {
			continue
		}
		if l.seen++; l.seen < l.filter.Nth {
			continue
		}
		p.losses = append(p.losses[:i:i], p.losses[i+1:]...)
		close(l.fired)
		if !l.filter.Hold {
			cut()
		}
		return true, l.filter.Hold
	}
	return false, false
}

// wanted reports that a loss may take the answer, so that no part of it is passed on before that is decided.
func (p *TCPProxy) wanted(c commit) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.losses {
		if l.filter.fits(c) {
			return true
		}
	}
	return false
}

func (f CommitFilter) fits(c commit) bool { return f.Alone == c.alone && contains(c.texts, f.After) }

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
	open       bool              // between BEGIN and COMMIT
	texts      []string          // SQL run in the transaction that is open
	commits    []commit          // COMMITs sent, not answered yet
	alone      []commit          // requests without BEGIN, not answered yet
	asked      int               // Query and Sync messages sent
	answered   int               // ReadyForQuery messages received
}

type commit struct {
	ends  int // the ReadyForQuery that ends its request
	texts []string
	alone bool
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
		l.open, l.texts = true, nil
	case word == "commit" || word == "end":
		l.commits = append(l.commits, commit{ends: ends, texts: l.texts})
		l.open, l.texts = false, nil
	case word == "rollback" && !strings.Contains(more, "to ") || word == "abort":
		l.open, l.texts = false, nil
	case l.open:
		l.texts = append(l.texts, text)
	default:
		if n := len(l.alone); n == 0 || l.alone[n-1].ends != ends {
			l.alone = append(l.alone, commit{ends: ends, alone: true})
		}
		last := &l.alone[len(l.alone)-1]
		last.texts = append(last.texts, text)
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
func (l *link) back(p *TCPProxy) error {
	var held []byte // an answer that is not passed on before it is whole
	for {
		m, err := message(l.server)
		if err != nil {
			return err
		}
		c, decides, keep := l.answer(m)
		if decides {
			if lost, hold := p.loses(c, l.cut); lost {
				return l.silent(hold)
			}
		}
		if keep && p.wanted(c) {
			held = append(held, m...)
			continue
		}
		if _, err := l.client.Write(append(held, m...)); err != nil {
			return err
		}
		held = nil
	}
}

// silent says nothing more. Whatever the server still sends is read and dropped until somebody closes the connection.
func (l *link) silent(hold bool) error {
	if !hold {
		return nil
	}
	_, err := io.Copy(io.Discard, l.server)
	return err
}

// answer relates a message of the server to a commit: one that it confirms, so that a loss is decided now, or one that it is
// a part of the answer to, so that it has to wait. A request without BEGIN has committed when it is ready, not before.
func (l *link) answer(m []byte) (c commit, decides, keep bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case m[0] == 'C' && string(m[5:]) == "COMMIT\x00":
		if len(l.commits) > 0 {
			c, l.commits = l.commits[0], l.commits[1:]
			return c, true, false
		}
	case m[0] == 'Z':
		if len(l.alone) > 0 && l.alone[0].ends == l.answered {
			c, decides = l.alone[0], m[5] == 'I'
		}
		l.ready()
	case len(l.alone) > 0 && l.alone[0].ends == l.answered:
		if m[0] == 'E' { // refused: nothing holds
			l.alone = l.alone[1:]
			return c, false, false
		}
		return l.alone[0], false, true
	}
	return c, decides, false
}

// ready forgets what ended with the request that is answered, such as a commit refused by a deferred constraint. The first
// ReadyForQuery belongs to the startup, and answers no request.
func (l *link) ready() {
	for len(l.commits) > 0 && l.commits[0].ends <= l.answered {
		l.commits = l.commits[1:]
	}
	for len(l.alone) > 0 && l.alone[0].ends <= l.answered {
		l.alone = l.alone[1:]
	}
	l.answered++
}
