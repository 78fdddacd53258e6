package operator

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/store"
)

const (
	sessionCookie  = "orderflow_operator"
	languageCookie = "orderflow_language"
)

// How often logging in may fail: for one login, and for one address whatever the login. Behind a proxy all share one address, so
// that bound is wide; what stops guessing is the first one.
const (
	triesPerLogin   = 8
	triesEvery      = 30 * time.Second
	triesPerAddress = 60
	addressEvery    = 2 * time.Second
)

// loginForm is what a login looks like; the database is asked about nothing else.
var loginForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._@-]{0,63}$`)

// whoIs finds who is logged in; nobody is no error.
func (o *Operator) whoIs(r *http.Request) (*store.Operator, error) {
	c, err := r.Cookie(sessionCookie)
	if err != nil || c.Value == "" || len(c.Value) > 200 {
		return nil, nil //nolint:nilerr,nilnil // no cookie is nobody, and nobody is an answer
	}
	who, err := o.d.Store.Session(r.Context(), tokenHash(c.Value))
	switch {
	case fault.IsCode(err, fault.NotFound):
		return nil, nil //nolint:nilnil // an ended session is nobody, and nobody is an answer
	case err != nil:
		return nil, err
	}
	return &who, nil
}

func tokenHash(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// toLogin sends a browser to the login form. A live update of an open page follows the same way.
func (o *Operator) toLogin(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("HX-Request") != "" {
		w.Header().Set("HX-Refresh", "true")
		w.WriteHeader(http.StatusOK)
		return
	}
	to := "/operator/login"
	if r.Method == http.MethodGet && r.URL.RequestURI() != "/operator" {
		to += "?to=" + escapeQuery(r.URL.RequestURI())
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

type loginPage struct {
	To    string
	Error string
}

func (o *Operator) loginForm(w http.ResponseWriter, r *http.Request, s *screen) {
	if s.Who != nil {
		http.Redirect(w, r, ours(r.URL.Query().Get("to")), http.StatusSeeOther)
		return
	}
	o.show(w, s, http.StatusOK, "login", loginPage{To: ours(r.URL.Query().Get("to"))})
}

// login answers an unknown login, a wrong password and a disabled login alike, after the same work.
func (o *Operator) login(w http.ResponseWriter, r *http.Request, s *screen) {
	login, password, to := strings.TrimSpace(r.PostForm.Get("login")), r.PostForm.Get("password"), ours(r.PostForm.Get("to"))
	limits := loginLimits(login, r)
	let, err := o.d.Store.LoginTake(r.Context(), limits...)
	if err != nil {
		o.refuse(w, s, http.StatusServiceUnavailable, "error.unavailable")
		return
	}
	if !let {
		o.auditRefusal(r, "unknown", "login_refused", "too_many_tries")
		w.Header().Set("Retry-After", "30")
		o.show(w, s, http.StatusTooManyRequests, "login", loginPage{To: to, Error: "login.limited"})
		return
	}
	who, why, err := o.check(r, login, password)
	if err != nil {
		o.refuse(w, s, http.StatusServiceUnavailable, "error.unavailable")
		return
	}
	if why != "" {
		o.auditRefusal(r, nameOr(who.Login), "login_refused", why) // never what was typed: people type passwords there
		o.show(w, s, http.StatusUnauthorized, "login", loginPage{To: to, Error: "login.wrong"})
		return
	}
	if err := o.begin(w, r, who.Login); err != nil {
		o.refuse(w, s, http.StatusServiceUnavailable, "error.unavailable")
		return
	}
	if err := o.d.Store.LoginGiveBack(r.Context(), limits...); err != nil {
		o.d.Log.WarnContext(r.Context(), "a login counts as failed", "error", err)
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

func nameOr(login string) string {
	if login == "" {
		return "unknown"
	}
	return login
}

// check says why a login is refused; "" = it is good. An error means that it cannot be known now.
func (o *Operator) check(r *http.Request, login, password string) (who store.Operator, why string, err error) {
	hash := o.dummy
	why = "unknown_login"
	if loginForm.MatchString(login) {
		who, err = o.d.Store.Operator(r.Context(), login)
		switch {
		case err == nil:
			hash, why = who.PasswordHash, ""
		case !fault.IsCode(err, fault.NotFound):
			return who, "", err
		}
	}
	if len(password) > 4*MaxPassword {
		return who, "wrong_password", nil
	}
	select {
	case o.hashes <- struct{}{}:
		defer func() { <-o.hashes }()
	case <-r.Context().Done():
		return who, "", r.Context().Err()
	}
	fits := passwordFits(hash, password)
	switch {
	case why != "":
	case !fits:
		why = "wrong_password"
	case who.DisabledAt != nil:
		why = "disabled"
	}
	return who, why, nil
}

// begin opens a session under a fresh token, whatever cookie came with the request.
func (o *Operator) begin(w http.ResponseWriter, r *http.Request, login string) error {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails since Go 1.24
	token := base64.RawURLEncoding.EncodeToString(b)
	if err := o.d.Store.SessionOpen(r.Context(), tokenHash(token), login, o.d.SessionLasts); err != nil {
		return err
	}
	if err := o.d.Store.Audit(r.Context(), login, string(order.ChannelPage), "login", map[string]string{}); err != nil {
		return err
	}
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie, Value: token, Path: "/operator", MaxAge: int(o.d.SessionLasts / time.Second), HttpOnly: true, Secure: secure(r), SameSite: http.SameSiteLaxMode,
	})
	return nil
}

func (o *Operator) logout(w http.ResponseWriter, r *http.Request, s *screen) {
	if c, err := r.Cookie(sessionCookie); err == nil && s.Who != nil {
		if err := o.d.Store.SessionEnd(r.Context(), tokenHash(c.Value)); err != nil {
			o.refuse(w, s, http.StatusServiceUnavailable, "error.unavailable")
			return
		}
		_ = o.d.Store.Audit(r.Context(), s.Who.Login, string(order.ChannelPage), "logout", map[string]string{}) // the session is ended all the same
	}
	http.SetCookie(w, &http.Cookie{Name: sessionCookie, Path: "/operator", MaxAge: -1, HttpOnly: true, Secure: secure(r), SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, "/operator/login", http.StatusSeeOther)
}

// language remembers which of the two is wanted.
func (o *Operator) language(w http.ResponseWriter, r *http.Request, _ *screen) {
	lang := english
	if r.PostForm.Get("language") == japanese {
		lang = japanese
	}
	http.SetCookie(w, &http.Cookie{
		Name: languageCookie, Value: lang, Path: "/operator", MaxAge: 365 * 24 * 3600, HttpOnly: true, Secure: secure(r), SameSite: http.SameSiteLaxMode,
	})
	http.Redirect(w, r, ours(r.PostForm.Get("to")), http.StatusSeeOther)
}

// secure: cookies go over TLS only, but for a browser on this very machine, as on a laptop. Where a proxy ends TLS the host tells.
func secure(r *http.Request) bool {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(host)
	return r.TLS != nil || (host != "localhost" && (ip == nil || !ip.IsLoopback()))
}

// ours is the address if it is one of this page, else the page's beginning: nobody is sent elsewhere by a link to us.
func ours(to string) string {
	if to == "/operator" || strings.HasPrefix(to, "/operator/") || strings.HasPrefix(to, "/operator?") {
		if !strings.ContainsAny(to, "\\\r\n") && !strings.HasPrefix(to, "/operator/login") {
			return to
		}
	}
	return "/operator"
}

// loginLimits name nobody: the buckets hold digests.
func loginLimits(login string, r *http.Request) []store.LoginLimit {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	digest := func(s string) string { return hex.EncodeToString(tokenHash(s)[:12]) }
	return []store.LoginLimit{
		{Bucket: "login/" + digest(strings.ToLower(login)), Size: triesPerLogin, Every: triesEvery},
		{Bucket: "login-from/" + digest(address), Size: triesPerAddress, Every: addressEvery},
	}
}
