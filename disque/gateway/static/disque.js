// What pages share. There is nothing yet that the server does not do.
