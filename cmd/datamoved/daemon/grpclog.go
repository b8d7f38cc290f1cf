package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"google.golang.org/grpc/grpclog"
)

// grpcLog takes what gRPC has to say into our log. It calls much an error that is a
// peer's business, so everything is one level lower.
type grpcLog struct{ log *slog.Logger }

var _ grpclog.LoggerV2 = grpcLog{}

func (g grpcLog) say(level slog.Level, text string) {
	g.log.Log(context.Background(), level, strings.TrimSpace(text), "from", "grpc")
}

func (grpcLog) Info(...any)          {}
func (grpcLog) Infoln(...any)        {}
func (grpcLog) Infof(string, ...any) {}

func (g grpcLog) Warning(args ...any)   { g.say(slog.LevelDebug, fmt.Sprint(args...)) }
func (g grpcLog) Warningln(args ...any) { g.say(slog.LevelDebug, fmt.Sprintln(args...)) }
func (g grpcLog) Warningf(format string, args ...any) {
	g.say(slog.LevelDebug, fmt.Sprintf(format, args...))
}
func (g grpcLog) Error(args ...any)   { g.say(slog.LevelWarn, fmt.Sprint(args...)) }
func (g grpcLog) Errorln(args ...any) { g.say(slog.LevelWarn, fmt.Sprintln(args...)) }
func (g grpcLog) Errorf(format string, args ...any) {
	g.say(slog.LevelWarn, fmt.Sprintf(format, args...))
}

func (g grpcLog) Fatal(args ...any)                 { g.die(fmt.Sprint(args...)) }
func (g grpcLog) Fatalln(args ...any)               { g.die(fmt.Sprintln(args...)) }
func (g grpcLog) Fatalf(format string, args ...any) { g.die(fmt.Sprintf(format, args...)) }

// die is what gRPC expects of Fatal. It says it only when it can not be set up.
func (g grpcLog) die(text string) {
	g.say(slog.LevelError, text)
	os.Exit(1)
}

// V reports whether a level of verbosity is wanted.
func (grpcLog) V(int) bool { return false }
