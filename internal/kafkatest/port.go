package kafkatest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// freePort picks a port on loopback that nobody uses just now. A node comes back on its own after it was killed, so the port is
// from below those that systems give to outgoing connections: nobody is given it in the meantime.
func freePort() (int, error) {
	const lowest, highest = 20000, 32000
	var err error
	for range 100 {
		port := lowest + rand.IntN(highest-lowest)
		var listener net.Listener
		if listener, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, listener.Close()
		}
	}
	return 0, errors.Join(errors.New("no free port on 127.0.0.1"), err)
}
