/*
 * A client that asks the C library for the addresses of a name, again and again, and prints those of each answer on a line.
 * Compiled with glibc and with musl, whose resolvers have nothing in common.
 */
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* Microseconds between two questions. */
#define PAUSE 50000

int main(int count, char **arguments)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found, *one;
    char text[NI_MAXHOST];

    if (count != 2)
        return 2;
    for (;;) {
        int error = getaddrinfo(arguments[1], "80", &hints, &found);
        if (error) {
            printf("%s\n", gai_strerror(error));
        } else {
            for (one = found; one; one = one->ai_next) {
                getnameinfo(one->ai_addr, one->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST);
                printf(one == found ? "%s" : " %s", text);
            }
            printf("\n");
            freeaddrinfo(found);
        }
        if (fflush(stdout))
            return 1;
        usleep(PAUSE);
    }
}
