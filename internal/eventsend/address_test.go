package eventsend

import (
	"errors"
	"net/netip"
	"testing"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	const (
		public = 1 << iota
		loopback
		private
		never
	)
	for text, kind := range map[string]int{
		"8.8.8.8": public, "1.1.1.1": public, "172.15.255.255": public, "172.32.0.1": public, "100.63.255.255": public,
		"100.128.0.1": public, "169.253.1.1": public, "2606:4700::1111": public, "2001:200::1": public, "::ffff:8.8.8.8": public,
		"64:ff9b::808:808": public, // NAT64 of 8.8.8.8

		"127.0.0.1": loopback, "127.255.0.9": loopback, "::1": loopback, "::ffff:127.0.0.1": loopback, "64:ff9b::7f00:1": loopback,

		"10.0.0.1": private, "172.16.0.1": private, "172.31.255.255": private, "192.168.1.1": private, "100.64.0.1": private,
		"fc00::1": private, "::ffff:100.64.0.1": private, "fd12:3456::1": private, "::ffff:10.0.0.1": private, "64:ff9b::a00:1": private,

		"169.254.169.254": never, "::ffff:169.254.169.254": never, "64:ff9b::a9fe:a9fe": never, "fe80::1": never, "fe80::1%eth0": never,
		"fd00:ec2::254": never, "::ffff:198.18.0.1": never, "0.0.0.0": never, "0.1.2.3": never, "::": never, "::ffff:0.0.0.0": never, "::7f00:1": never,
		"224.0.0.1": never, "ff02::1": never, "255.255.255.255": never, "240.0.0.1": never, "192.0.0.8": never, "198.18.0.1": never,
		"203.0.113.7": never, "2001:db8::1": never, "2002:7f00:1::": never, "2001:0:1::1": never, "fec0::1": never, "64:ff9b:1::a00:1": never,
	} {
		for _, c := range []Config{{}, {AllowLoopback: true}, {AllowPrivate: true}, {AllowLoopback: true, AllowPrivate: true}} {
			allowed := kind == public || (kind == loopback && c.AllowLoopback) || (kind == private && c.AllowPrivate)
			err := c.refuses(netip.MustParseAddr(text))
			if (err == nil) != allowed || (err != nil && !errors.Is(err, errAddress)) {
				t.Errorf("%s with %+v: %v, want allowed = %v", text, c, err, allowed)
			}
		}
	}
}

func TestControlRefusesWhatIsNoTCPAddress(t *testing.T) {
	t.Parallel()
	c := Config{AllowLoopback: true}
	if err := c.control("tcp4", "127.0.0.1:80", nil); err != nil {
		t.Error(err)
	}
	for _, in := range [][2]string{{"udp4", "127.0.0.1:80"}, {"unix", "/run/x.sock"}, {"tcp4", "localhost:80"}, {"tcp4", ""}} {
		if err := c.control(in[0], in[1], nil); !errors.Is(err, errAddress) {
			t.Errorf("%v: %v", in, err)
		}
	}
}
