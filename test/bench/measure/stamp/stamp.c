/*
 * stamp FILE [MILLISECONDS] is the command that every wrapper runs in the bench.
 * It writes down when it lives, on CLOCK_MONOTONIC:
 *
 *     start NANOSECONDS PID     the first thing it does
 *     end NANOSECONDS PID       the last, after MILLISECONDS; not without them
 *
 * It is static and has no stdio, so that next to nothing is measured of the
 * command itself.
 */
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct timespec now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t;
}

/* number writes n in decimal before end and returns where it begins. */
static char *number(char *end, unsigned long long n)
{
	do
		*--end = '0' + n % 10;
	while (n /= 10);
	return end;
}

/* put appends a line to the file, in one write. */
static int put(int fd, const char *what, struct timespec t)
{
	char line[80], *end = line + sizeof line, *p = end;
	size_t length = strlen(what);

	*--p = '\n';
	p = number(p, (unsigned long long)getpid());
	*--p = ' ';
	p = number(p, (unsigned long long)t.tv_sec * 1000000000ULL + (unsigned long long)t.tv_nsec);
	*--p = ' ';
	p -= length;
	memcpy(p, what, length);
	return write(fd, p, (size_t)(end - p)) == end - p;
}

int main(int argc, char **argv)
{
	struct timespec until = now();
	int fd;

	if (argc < 2)
		return 64;
	fd = open(argv[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || !put(fd, "start", until))
		return 74;
	if (argc > 2) {
		unsigned long ms = 0;

		for (const char *p = argv[2]; *p >= '0' && *p <= '9'; p++)
			ms = ms * 10 + (unsigned long)(*p - '0');
		until.tv_sec += (time_t)(ms / 1000);
		until.tv_nsec += (long)(ms % 1000) * 1000000;
		if (until.tv_nsec >= 1000000000) {
			until.tv_sec++;
			until.tv_nsec -= 1000000000;
		}
		/* A signal that does not end it does not shorten it either. */
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0)
			;
		if (!put(fd, "end", now()))
			return 74;
	}
	_exit(0);
}
