package fabric

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Path is a way over a wide area.
type Path struct {
	Mbit  int           // per second, in each direction
	Delay time.Duration // of each packet, one way
}

const (
	wanMTU     = 9000                   // jumbo frames, as Direct Connect has them
	queueFor   = 100 * time.Millisecond // of a packet before it is sent; what would wait longer is dropped
	queueMost  = 1 << 14                // packets on their way, in each direction
	wanHub     = "10.232.0.1"
	wanAddress = "10.232.0.%d" // of the other end, while its path is the n-th
)

// WAN connects the hub with a node by a way whose rate and delay change while it is
// used: of the kernels that tests run on not all have netem. It is a TUN device in
// each namespace, and packets that wait between them.
type WAN struct {
	hub, node *Node
	ends      [2]*os.File // of the hub, of the node
	ways      [2]way      // from the hub, from the node
	all       sync.WaitGroup
	paths     int // so far
}

// way is one direction.
type way struct {
	path  atomic.Pointer[Path] // nil loses all
	bytes atomic.Int64         // that came to its end
}

// packet is on its way.
type packet struct {
	due  time.Time
	data []byte
}

// NewWAN connects a node with the hub, beside the link that the rig has. Close ends it.
func (r *Rig) NewWAN(ctx context.Context, n *Node, p Path) (*WAN, error) {
	w := &WAN{hub: r.Hub, node: n}
	for i, at := range []*Node{w.hub, w.node} {
		f, err := tun(at)
		if err != nil {
			return nil, errors.Join(err, w.Close())
		}
		w.ends[i] = f
	}
	setup := fmt.Sprintf("link set wan0 mtu %d up\n", wanMTU)
	err := tool(ctx, setup+"addr add "+wanHub+"/24 dev wan0\n", "ip", "-n", w.hub.space, "-batch", "-")
	err = errors.Join(err, tool(ctx, setup, "ip", "-n", w.node.space, "-batch", "-"), w.Take(ctx, p))
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	w.all.Go(func() { w.carry(&w.ways[0], w.ends[0], w.ends[1]) })
	w.all.Go(func() { w.carry(&w.ways[1], w.ends[1], w.ends[0]) })
	return w, nil
}

// tun makes the device wan0 in the namespace of a node. The thread that does it comes
// back: it may be the one by which this process is known, and that is swept with its namespace.
func tun(n *Node) (f *os.File, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(here)
	there, err := unix.Open("/run/netns/"+n.space, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(there)
	if err := unix.Setns(there, unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("enter %s: %w", n.space, err)
	}
	fd, err := device()
	if back := unix.Setns(here, unix.CLONE_NEWNET); back != nil {
		panic(fmt.Sprintf("a thread stays in %s: %v", n.space, back))
	}
	if err != nil {
		return nil, fmt.Errorf("device in %s: %w", n.space, err)
	}
	return os.NewFile(uintptr(fd), n.space+"/wan0"), nil
}

// device makes wan0 in the namespace of the thread. It goes when the file is closed.
func device() (fd int, err error) {
	if fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err != nil {
		return -1, err
	}
	request, err := unix.NewIfreq("wan0")
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// carry brings packets from one end to the other, until one of them is closed.
func (w *WAN) carry(of *way, from, to *os.File) {
	onTheWay := make(chan packet, queueMost)
	var sender sync.WaitGroup
	sender.Go(func() { of.deliver(onTheWay, to) })
	defer sender.Wait()
	defer close(onTheWay)
	buffer, free := make([]byte, wanMTU), time.Now()
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		p, now := of.path.Load(), time.Now()
		if p == nil || free.Sub(now) > queueFor || len(onTheWay) == queueMost {
			continue
		}
		if free.Before(now) {
			free = now
		}
		free = free.Add(time.Duration(n) * 8 * time.Second / time.Duration(p.Mbit*1e6))
		onTheWay <- packet{free.Add(p.Delay), append([]byte(nil), buffer[:n]...)}
	}
}

// deliver gives packets to an end when they are due. What is on its way when the path is lost is lost.
func (of *way) deliver(onTheWay <-chan packet, to *os.File) {
	for p := range onTheWay {
		time.Sleep(time.Until(p.due))
		if of.path.Load() == nil {
			continue
		}
		if n, err := to.Write(p.data); err == nil {
			of.bytes.Add(int64(n))
		}
	}
}

// Take moves all to another path. The node has another address on it.
func (w *WAN) Take(ctx context.Context, p Path) error {
	w.paths++
	err := tool(ctx, fmt.Sprintf("addr flush dev wan0\naddr add "+wanAddress+"/24 dev wan0\n", w.paths+1), "ip", "-n", w.node.space, "-batch", "-")
	for i := range w.ways {
		w.ways[i].path.Store(&p)
	}
	return err
}

// Lose loses all packets from now on.
func (w *WAN) Lose() {
	for i := range w.ways {
		w.ways[i].path.Store(nil)
	}
}

// Reset resets all connections over the path, as a middlebox does that forgets them: the
// other end is told by a RST.
func (w *WAN) Reset(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "ip", "netns", "exec", w.hub.space, "ss", "-K", "-t", "state", "established", "src", wanHub).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ss -K: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Connections counts those over the path.
func (w *WAN) Connections(ctx context.Context) (int, error) {
	out, err := exec.CommandContext(ctx, "ip", "netns", "exec", w.hub.space, "ss", "-H", "-t", "-n", "state", "established", "src", wanHub).Output()
	if err != nil {
		return 0, fmt.Errorf("ss: %w", err)
	}
	return strings.Count(string(out), "\n"), nil
}

// Brought is how many bytes the path has brought to the hub and to the node, with headers.
func (w *WAN) Brought() (hub, node int64) { return w.ways[1].bytes.Load(), w.ways[0].bytes.Load() }

// Close removes the path.
func (w *WAN) Close() (err error) {
	for _, f := range w.ends {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	w.all.Wait()
	return err
}
