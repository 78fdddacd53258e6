package fault_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"orderflow/internal/fault"
)

func TestNewTakesTheClassFromTheTable(t *testing.T) {
	t.Parallel()
	for _, p := range fault.Table() {
		if f := fault.New(p.Code, "op"); f.Class != p.Class || f.Code != p.Code {
			t.Errorf("%s: class %s", p.Code, f.Class)
		}
	}
}

func TestErrorNamesCodesAndHidesTheCause(t *testing.T) {
	t.Parallel()
	f := fault.Wrap(fault.IssuanceUnknown, "issuer issue", errors.New("Post https://issuer.example/?key=mArKeR"))
	f.Provider = fault.Provider{Name: "tickets", HTTPStatus: 502, Code: "c\n1", RequestID: "r1"}
	for _, text := range []string{f.Error(), fmt.Sprintf("%v", f), fmt.Sprintf("%+v", f), fmt.Sprintf("%s", error(f))} {
		if strings.Contains(text, "mArKeR") || strings.Contains(text, "\n") {
			t.Errorf("%q", text)
		}
		for _, part := range []string{"issuer issue", string(fault.IssuanceUnknown), "tickets", "502", `"r1"`} {
			if !strings.Contains(text, part) {
				t.Errorf("%q does not name %s", text, part)
			}
		}
	}
}

func TestUnwrapShowsTheCauseToCode(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("step: %w", fault.Wrap(fault.GatewayReadFailed, "lookup", context.DeadlineExceeded))
	if !errors.Is(err, context.DeadlineExceeded) || !fault.IsCode(err, fault.GatewayReadFailed) || fault.IsCode(err, fault.PaymentUnknown) {
		t.Error("the chain is broken")
	}
}

func TestAsTurnsAnUnclassifiedErrorIntoAnInternalOne(t *testing.T) {
	t.Parallel()
	if fault.As(nil) != nil {
		t.Error("no error is no fault")
	}
	cause := errors.New("boom")
	f := fault.As(cause)
	if f.Code != fault.InternalError || f.Class != fault.Internal || !errors.Is(f, cause) {
		t.Errorf("%+v", f)
	}
	inner := fault.New(fault.NotFound, "order load")
	if fault.As(fmt.Errorf("a: %w", fmt.Errorf("b: %w", inner))) != inner {
		t.Error("a wrapped fault is lost")
	}
	if fault.IsCode(cause, fault.InternalError) {
		t.Error("an error that is no fault carries no code")
	}
}
