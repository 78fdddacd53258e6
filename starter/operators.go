package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"

	"orderflow/internal/fault"
	"orderflow/starter/operator"
	"orderflow/store"
)

type operatorsCommand struct {
	Add     operatorsAdd     `cmd:"" help:"Add a login for the operator page. The password is read from standard input, one line."`
	List    operatorsList    `cmd:"" help:"List the logins."`
	Disable operatorsDisable `cmd:"" help:"End a login and its sessions. It is never given to somebody else: decisions name it."`
}

// openStore is for commands that need no more than the database.
func openStore(ctx context.Context, s *streams) (*store.Store, error) {
	c, _, err := s.load()
	if err != nil {
		return nil, err
	}
	return store.Open(ctx, c.DatabaseURL.Reveal(), 2, store.Options{Receivers: c.ReceiverNames()})
}

type operatorsAdd struct {
	Login string `arg:"" help:"Lower-case letters, digits, dot, dash, underscore and @; at most 64."`
	Name  string `required:"" help:"The person's name, as it is shown beside decisions."`
	Role  string `required:"" enum:"viewer,operator,approver" help:"viewer reads; operator decides; approver decides and is the second person of what needs two."`
}

// Run never takes a password from the arguments: other users of a machine can read those.
func (o operatorsAdd) Run(ctx context.Context, s *streams) error {
	password, err := readPassword(s)
	if err != nil {
		return err
	}
	if err := operator.CheckPassword(password); err != nil {
		return err
	}
	st, err := openStore(ctx, s)
	if err != nil {
		return err
	}
	defer st.Close()
	err = st.OperatorAdd(ctx, store.Operator{Login: o.Login, Name: o.Name, Role: o.Role, PasswordHash: operator.HashPassword(password)})
	if f := fault.As(err); err != nil && f.Code == fault.ConstraintViolated {
		switch f.Why {
		case "login_taken":
			return errors.New("this login is taken; a disabled one stays taken, because decisions name it")
		case "operators_login_form":
			return errors.New("a login begins with a lower-case letter or a digit and holds only those, dot, dash, underscore and @; at most 64 characters")
		case "operators_name_present":
			return errors.New("the name must have 1 to 100 characters")
		}
	}
	if err != nil {
		return err
	}
	say(s, "the login is added")
	return nil
}

// readPassword reads one line; a person at a terminal does not see it.
func readPassword(s *streams) (string, error) {
	if f, ok := s.in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		_, _ = fmt.Fprint(s.err, "Password: ")
		b, err := term.ReadPassword(int(f.Fd()))
		_, _ = fmt.Fprintln(s.err)
		return string(b), err
	}
	line, err := bufio.NewReader(io.LimitReader(s.in, 4096)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", errors.New("the password cannot be read from standard input")
	}
	return strings.TrimRight(line, "\r\n"), nil
}

type operatorsList struct{}

// Run prints one line per login.
func (operatorsList) Run(ctx context.Context, s *streams) error {
	st, err := openStore(ctx, s)
	if err != nil {
		return err
	}
	defer st.Close()
	all, err := st.Operators(ctx)
	if err != nil {
		return err
	}
	tw := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, "LOGIN\tNAME\tROLE\tSINCE\tENDED")
	for _, o := range all {
		_, _ = fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", o.Login, o.Name, o.Role, minute(&o.CreatedAt), minute(o.DisabledAt))
	}
	return tw.Flush()
}

type operatorsDisable struct {
	Login string `arg:"" help:"Whose login ends, now."`
}

// Run ends a login; doing it again changes nothing.
func (o operatorsDisable) Run(ctx context.Context, s *streams) error {
	st, err := openStore(ctx, s)
	if err != nil {
		return err
	}
	defer st.Close()
	ended, err := st.OperatorDisable(ctx, o.Login)
	if err != nil {
		return err
	}
	if !ended {
		say(s, "there is no such login, or it was disabled before")
		return exitCode(3)
	}
	say(s, "the login and its sessions are ended")
	return nil
}
