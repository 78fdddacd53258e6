package store

import (
	"context"
	"encoding/json"
	"time"

	"orderflow/internal/fault"
	"orderflow/store/sqlcgen"
)

// Operator is a person who may use the operator page.
type Operator struct {
	Login        string
	Name         string
	Role         string // "viewer", "operator" or "approver"
	PasswordHash string // argon2id; empty where the caller has no business with it
	CreatedAt    time.Time
	DisabledAt   *time.Time
}

// OperatorAdd stores a login. One that is there, disabled or not, is a conflict: a login names one person for good, because
// decisions carry it.
func (s *Store) OperatorAdd(ctx context.Context, o Operator) error {
	const op = "add operator"
	n, err := s.q().OperatorInsert(ctx, sqlcgen.OperatorInsertParams{Login: o.Login, Name: o.Name, Role: o.Role, PasswordHash: o.PasswordHash})
	if err != nil {
		return translate(op, err)
	}
	if n == 0 {
		e := fault.New(fault.ConstraintViolated, op)
		e.Why = "login_taken"
		return e
	}
	return nil
}

// Operator reads one login, a disabled one too.
func (s *Store) Operator(ctx context.Context, login string) (Operator, error) {
	r, err := s.q().OperatorGet(ctx, login)
	return operatorOf(r), translate("read operator", err)
}

// Operators lists every login, without the hashes.
func (s *Store) Operators(ctx context.Context) ([]Operator, error) {
	rows, err := s.q().OperatorsList(ctx)
	if err != nil {
		return nil, translate("list operators", err)
	}
	out := make([]Operator, len(rows))
	for i, r := range rows {
		out[i] = operatorOf(r)
		out[i].PasswordHash = ""
	}
	return out, nil
}

func operatorOf(r sqlcgen.Operator) Operator {
	return Operator{Login: r.Login, Name: r.Name, Role: r.Role, PasswordHash: r.PasswordHash, CreatedAt: r.CreatedAt, DisabledAt: r.DisabledAt}
}

// OperatorDisable ends a login and its sessions. False means that there is no such login, or that it was disabled before.
func (s *Store) OperatorDisable(ctx context.Context, login string) (bool, error) {
	var n int64
	err := s.inTx(ctx, "disable operator", func(ctx context.Context, w *work) (err error) {
		if n, err = w.read.OperatorDisable(ctx, login); err != nil {
			return err
		}
		return w.read.SessionsDeleteOf(ctx, login)
	})
	return n == 1, err
}

// SessionOpen logs an operator in: the token's hash is kept, the token is not.
func (s *Store) SessionOpen(ctx context.Context, tokenHash []byte, login string, lasts time.Duration) error {
	return translate("open session", s.q().SessionInsert(ctx, sqlcgen.SessionInsertParams{TokenHash: tokenHash, Login: login, Lasts: lasts}))
}

// Session finds who is logged in by a token's hash. Not found is a fault: it never was, it has expired, or its login is disabled.
func (s *Store) Session(ctx context.Context, tokenHash []byte) (Operator, error) {
	r, err := s.q().SessionGet(ctx, tokenHash)
	return Operator{Login: r.Login, Name: r.Name, Role: r.Role}, translate("read session", err)
}

// SessionEnd logs out. A session that is not there is ended already.
func (s *Store) SessionEnd(ctx context.Context, tokenHash []byte) error {
	return translate("end session", s.q().SessionDelete(ctx, tokenHash))
}

// SessionsPrune forgets sessions that have expired.
func (s *Store) SessionsPrune(ctx context.Context) (int64, error) {
	n, err := s.q().SessionsPrune(ctx)
	return n, translate("prune sessions", err)
}

// LoginLimit is how often one bucket may fail to log in: Size times at once, and once more per Every.
type LoginLimit struct {
	Bucket string // names no login and no address in the clear
	Size   int
	Every  time.Duration
}

// LoginTake pays for one try to log in from every bucket, and reports whether all of them could. Tries side by side pay each for
// itself, so that guessing in parallel is no faster.
func (s *Store) LoginTake(ctx context.Context, limits ...LoginLimit) (bool, error) {
	for _, l := range limits {
		n, err := s.q().LoginTake(ctx, sqlcgen.LoginTakeParams{Bucket: l.Bucket, Size: int32(l.Size), Every: l.Every})
		if err != nil {
			return false, translate("limit logins", err)
		}
		if n == 0 {
			return false, nil
		}
	}
	return true, nil
}

// LoginGiveBack returns what a login that succeeded has paid.
func (s *Store) LoginGiveBack(ctx context.Context, limits ...LoginLimit) error {
	for _, l := range limits {
		if err := s.q().LoginGiveBack(ctx, int32(l.Size), []string{l.Bucket}); err != nil {
			return translate("limit logins", err)
		}
	}
	return nil
}

// Audit keeps an act that leaves no row elsewhere: a login, a refusal. detail is marshaled as it is and holds no secret.
func (s *Store) Audit(ctx context.Context, actor, channel, act string, detail map[string]string) error {
	b, err := json.Marshal(detail)
	if err != nil {
		return fault.Wrap(fault.InternalError, "write audit", err)
	}
	return translate("write audit", s.q().AuditInsert(ctx, sqlcgen.AuditInsertParams{Actor: actor, Channel: channel, Act: act, Detail: b}))
}
