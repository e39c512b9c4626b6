/* Writes down whom each process allows to look into it: "PROCESS ALLOWED" in the file named by TOLD_PTRACER. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int prctl(int option, ...)
{
    unsigned long values[4];
    va_list arguments;
    va_start(arguments, option);
    for (int place = 0; place < 4; place++)
        values[place] = va_arg(arguments, unsigned long);
    va_end(arguments);
    if (option == PR_SET_PTRACER) {
        FILE *told = fopen(getenv("TOLD_PTRACER"), "a");
        fprintf(told, "%d %lu\n", (int)getpid(), values[0]);
        fclose(told);
    }
    return (int)syscall(SYS_prctl, option, values[0], values[1], values[2], values[3]);
}
