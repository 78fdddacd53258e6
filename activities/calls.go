package activities

import (
	"time"

	"orderflow/gateways"
	"orderflow/internal/fault"
)

// Call is one request to another party and what came of it. It names no order and no payment: it is counted, not kept.
type Call struct {
	Party     string // gateway, issuer or receiver
	Name      string // of the gateway with its account, the issuer or the receiver, as configured
	Operation string // prepare, confirm, cancel, refund, lookup, refund_lookup, list, issue or event
	Result    string // ok, or the fault's code: unknown ones are what an operator wants to see rise
	Took      time.Duration
}

const callOK = "ok"

func (a *Activities) called(party, name, operation string, began time.Time, err error) {
	if a.d.Called == nil {
		return
	}
	c := Call{Party: party, Name: name, Operation: operation, Result: callOK, Took: time.Since(began)}
	if err != nil {
		c.Result = string(fault.As(err).Code)
	}
	a.d.Called(c)
}

func (a *Activities) calledGateway(gw gateways.Gateway, operation string, began time.Time, err error) {
	acc := gw.Account()
	a.called("gateway", acc.Gateway+"/"+acc.Name, operation, began, err)
}
