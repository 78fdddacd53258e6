// Package all is the one list of payment gateways this program is built with.
//
// It must not know anything about them beyond their registrations, and holds no logic but finding one by name. It may
// import the gateways and nothing else.
package all

import (
	"orderflow/gateways"
	"orderflow/gateways/omise"
	"orderflow/gateways/stripe"
	"orderflow/gateways/toss"
	"orderflow/gateways/twoctwop"
)

// Registrations returns every gateway, in the order a person would list them. A new provider is one folder and one line
// here.
func Registrations() []gateways.Registration {
	return []gateways.Registration{
		stripe.Registration(),
		omise.Registration(),
		twoctwop.Registration(),
		toss.Registration(),
	}
}

// Find returns the registration of a gateway by its name as in URLs and rows, and whether there is one.
func Find(name string) (gateways.Registration, bool) {
	for _, r := range Registrations() {
		if r.Name == name {
			return r, true
		}
	}
	return gateways.Registration{}, false
}
