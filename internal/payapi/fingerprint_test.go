package payapi

import (
	"encoding/hex"
	"net/http"
	"testing"
)

// 23: the fingerprint of a command must not change with a release: retries across the deployment would be refused. Whoever must change it
// compares with both for as long as the window lasts.
func TestEdge_FingerprintStays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		route   string
		command command
		want    string
	}{
		{"/v1/transfers", &transferCommand{From: "wallet:shimul", To: "wallet:tithi", Amount: "500.00", Currency: "BDT"},
			"c6185b4b8251c6147e537c6d8f9dee5ed86ddd017cf0a27b9c23dfcddfe20bbc"},
		{"/v1/transfers", &transferCommand{From: "wallet:shimul", To: "wallet:tithi", Amount: "500.00", Currency: "BDT", Note: "coaching & <tea>"},
			"e38e2113dcbb51270dca914f53525d6feb4a217b3aa2e75075e9b895f75957cb"},
		{"/v1/refunds", &refundCommand{TransferID: "TXN-5HYVSN3DDVNQSZ2DXW3ACUOGJM", Amount: "2.50", ExpectedRefunded: "0.00", Reason: "goodwill"},
			"819021f6fdc898f453a25eeed46948e1c01d4d4fcde7dded3e30ae9c43bfecef"},
		{"/v1/refunds", &refundCommand{TransferID: "TXN-5HYVSN3DDVNQSZ2DXW3ACUOGJM", Everything: true, ExpectedRefunded: "2.50", Reason: "other", Note: "n"},
			"859fe35b28f81e60ab6e4f397288e10597ff2190ffad2e1e0d0ab5291827e726"},
	} {
		if _, err := c.command.spec("TXN-AAAAAAAAAAAAAAAAAAAAAAAAAA"); err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(fingerprint(http.MethodPost, c.route, c.command)); got != c.want {
			t.Errorf("%+v: %s", c.command, got)
		}
	}
}

// The same of the number, which names the payment for ever: one that changed would pay again.
func TestEdge_NumberStays(t *testing.T) {
	t.Parallel()
	if got := newNumber("user:shimul", "7f3a91c2-5d0e-4b6f-9a77-0c1d2e3f4a5b"); got != "TXN-TL2EQ7SNUEIFN6ZM2RSZKMOKET" {
		t.Errorf("%s", got)
	}
}
