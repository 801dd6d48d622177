autocmd BufRead,BufNewFile *.pto,*.pto.j2 setfiletype pto
