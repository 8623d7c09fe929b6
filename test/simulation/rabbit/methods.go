package rabbit

// method is a class and a method of AMQP 0-9-1.
type method uint32

func (m method) class() uint16  { return uint16(m >> 16) }
func (m method) number() uint16 { return uint16(m) }

const (
	connectionStart          = method(10<<16 | 10)
	connectionStartOK        = method(10<<16 | 11)
	connectionTune           = method(10<<16 | 30)
	connectionTuneOK         = method(10<<16 | 31)
	connectionOpen           = method(10<<16 | 40)
	connectionOpenOK         = method(10<<16 | 41)
	connectionClose          = method(10<<16 | 50)
	connectionCloseOK        = method(10<<16 | 51)
	connectionBlocked        = method(10<<16 | 60)
	connectionUnblocked      = method(10<<16 | 61)
	connectionUpdateSecret   = method(10<<16 | 70)
	connectionUpdateSecretOK = method(10<<16 | 71)

	channelOpen    = method(20<<16 | 10)
	channelOpenOK  = method(20<<16 | 11)
	channelFlow    = method(20<<16 | 20)
	channelFlowOK  = method(20<<16 | 21)
	channelClose   = method(20<<16 | 40)
	channelCloseOK = method(20<<16 | 41)

	queueDeclare   = method(50<<16 | 10)
	queueDeclareOK = method(50<<16 | 11)
	queuePurge     = method(50<<16 | 30)
	queuePurgeOK   = method(50<<16 | 31)
	queueDelete    = method(50<<16 | 40)
	queueDeleteOK  = method(50<<16 | 41)

	basicQos       = method(60<<16 | 10)
	basicQosOK     = method(60<<16 | 11)
	basicConsume   = method(60<<16 | 20)
	basicConsumeOK = method(60<<16 | 21)
	basicCancel    = method(60<<16 | 30)
	basicCancelOK  = method(60<<16 | 31)
	basicPublish   = method(60<<16 | 40)
	basicReturn    = method(60<<16 | 50)
	basicDeliver   = method(60<<16 | 60)
	basicGet       = method(60<<16 | 70)
	basicGetOK     = method(60<<16 | 71)
	basicGetEmpty  = method(60<<16 | 72)
	basicAck       = method(60<<16 | 80)
	basicReject    = method(60<<16 | 90)
	basicNack      = method(60<<16 | 120)

	confirmSelect   = method(85<<16 | 10)
	confirmSelectOK = method(85<<16 | 11)
	txSelect        = method(90<<16 | 10)
	txSelectOK      = method(90<<16 | 11)
	txCommit        = method(90<<16 | 20)
	txCommitOK      = method(90<<16 | 21)
	txRollback      = method(90<<16 | 30)
	txRollbackOK    = method(90<<16 | 31)
)

// The codes of refusals. The first of them close a channel, the others the connection.
const (
	noRoute            = 312
	connectionForced   = 320
	accessRefused      = 403
	notFound           = 404
	resourceLocked     = 405
	preconditionFailed = 406
	frameError         = 501
	commandInvalid     = 503
	channelError       = 504
	unexpectedFrame    = 505
	resourceError      = 506
	notAllowed         = 530
	notImplemented     = 540
	internalError      = 541
)

var codeNames = map[int]string{
	noRoute: "NO_ROUTE", connectionForced: "CONNECTION_FORCED", accessRefused: "ACCESS_REFUSED", notFound: "NOT_FOUND",
	resourceLocked: "RESOURCE_LOCKED", preconditionFailed: "PRECONDITION_FAILED", frameError: "FRAME_ERROR",
	commandInvalid: "COMMAND_INVALID", channelError: "CHANNEL_ERROR", unexpectedFrame: "UNEXPECTED_FRAME",
	resourceError: "RESOURCE_ERROR", notAllowed: "NOT_ALLOWED", notImplemented: "NOT_IMPLEMENTED",
	internalError: "INTERNAL_ERROR",
}
