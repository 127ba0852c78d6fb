/* A resolver that takes its time: getaddrinfo of a name that ends in ".slow" says nothing for 20 s, and then that it
 * does not know. Preloaded by the job of `checkback bench neighbours`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

typedef int (*resolver)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
    size_t length = name ? strlen(name) : 0;
    if (length > 5 && strcmp(name + length - 5, ".slow") == 0) {
        sleep(20);
        return EAI_AGAIN;
    }
    resolver real = (resolver)dlsym(RTLD_NEXT, "getaddrinfo");
    return real(name, service, hints, found);
}
