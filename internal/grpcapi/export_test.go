package grpcapi

// What the tests of package grpcapi_test need to put another service behind the same errors.
var (
	StatusCodes      = statusCodes
	ToStatus         = toStatus
	ErrorInterceptor = errorInterceptor
	PanicInterceptor = panicInterceptor
	Shorten          = shorten
)
