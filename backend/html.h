/* The files of html/, as CMake embeds them (html/embed.cmake). */
#ifndef CTRC_BACKEND_HTML_H
#define CTRC_BACKEND_HTML_H
extern const char backend_html_page[], backend_html_style[], backend_html_script[]; /* NUL-terminated */
#endif
