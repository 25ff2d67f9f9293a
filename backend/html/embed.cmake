# cmake -DOUT=html_files.c -DDIR=backend/html -P embed.cmake: the page's files as C arrays. The script's parts
# are put together in the order of the list.
set(SCRIPTS lines.js compare.js list.js source.js ir.js tables.js memory.js page.js)

function(embed name)
  set(hex "")
  foreach(file ${ARGN})
    file(READ ${DIR}/${file} one HEX)
    string(APPEND hex ${one})
  endforeach()
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(REPLACE "0x0a," "0x0a,\n" bytes "${bytes}")
  file(APPEND ${OUT} "const char ${name}[] = {\n${bytes}0};\n")
endfunction()

file(WRITE ${OUT} "#include \"backend/html.h\"\n")
embed(backend_html_page page.html)
embed(backend_html_style page.css)
embed(backend_html_script ${SCRIPTS})
