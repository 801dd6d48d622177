(comment) @comment
(string) @string
(number) @number @constant.numeric
(type) @type
(value) @variable
(function) @function
(label) @label
(attribute) @attribute
(operation) @function.builtin
(keyword) @keyword
(constant) @constant
["{" "}"] @punctuation.bracket
