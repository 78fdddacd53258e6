package eventsend

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// errAddress is why a dialed address was refused. The address itself stays out: it is what an attacker wants to learn.
var errAddress = errors.New("the receiver's host leads to an address that events are not sent to")

// control runs on every address just before it is connected to, after the name was resolved: a name that changes what it
// resolves to between a check and the dial cannot get past it.
func (c Config) control(network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return fmt.Errorf("%w: not TCP", errAddress)
	}
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: not an address", errAddress)
	}
	return c.refuses(target.Addr())
}

// Prefixes that netip has no question for. Documentation and benchmark ranges lead nowhere honest; the others wrap or
// relay IPv4, so that a private address could hide in them.
var (
	sharedNAT = netip.MustParsePrefix("100.64.0.0/10")
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	never     = []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"),
		netip.MustParsePrefix("192.0.0.0/24"),
		netip.MustParsePrefix("192.0.2.0/24"),
		netip.MustParsePrefix("192.88.99.0/24"),
		netip.MustParsePrefix("198.18.0.0/15"),
		netip.MustParsePrefix("198.51.100.0/24"),
		netip.MustParsePrefix("203.0.113.0/24"),
		netip.MustParsePrefix("240.0.0.0/4"),
		netip.MustParsePrefix("::/96"),
		netip.MustParsePrefix("64:ff9b:1::/48"),
		netip.MustParsePrefix("100::/64"),
		netip.MustParsePrefix("2001::/23"),
		netip.MustParsePrefix("2001:db8::/32"),
		netip.MustParsePrefix("2002::/16"),
		netip.MustParsePrefix("3fff::/20"),
		netip.MustParsePrefix("5f00::/16"),
		netip.MustParsePrefix("fd00:ec2::/32"), // a cloud's metadata service, in a range that AllowPrivate opens
		netip.MustParsePrefix("fec0::/10"),
	}
)

// refuses is nil where events may go. What is not public and not allowed by name is refused, link-local always: the
// metadata services of clouds live there.
func (c Config) refuses(addr netip.Addr) error {
	addr = addr.WithZone("").Unmap()
	if nat64.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	if addr.IsLoopback() {
		return unless(c.AllowLoopback, "loopback")
	}
	for _, p := range never {
		if p.Contains(addr) {
			return unless(false, "reserved")
		}
	}
	switch {
	case !addr.IsGlobalUnicast(): // unspecified, multicast, link-local, broadcast
		return unless(false, "not global")
	case addr.IsPrivate() || sharedNAT.Contains(addr):
		return unless(c.AllowPrivate, "private")
	}
	return nil
}

func unless(allowed bool, kind string) error {
	if allowed {
		return nil
	}
	return fmt.Errorf("%w: %s", errAddress, kind)
}
